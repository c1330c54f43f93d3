// What this project uses of CUB.
#pragma once

#include <cub/device/device_reduce.cuh>
