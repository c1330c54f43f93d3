// Owns the way to look for a kernel that fails on a device.
#pragma once

namespace vindex::run {

/// Back ends that are opened from now on wait for every kernel they launch, so that a fault is told
/// of the kernel that did it, by name. Slow; for looking for a fault. Nothing where there is no
/// device. Call it before there are threads.
void await_launches();

}  // namespace vindex::run
