// Owns the way to look for a kernel that fails on a device.
#pragma once

namespace vindex::engine {

/// Back ends that are opened from now on wait for every kernel they launch, so that a fault names
/// the kernel that caused it. Slow; for looking for a fault. Nothing where there is no
/// device. Call it before there are threads.
void await_launches();

}  // namespace vindex::engine
