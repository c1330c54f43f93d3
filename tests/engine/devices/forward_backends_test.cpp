// Which back end a forward pass gets, and what is said of it, on a machine with a device and on one
// without.
#include "engine/devices/forward_backends.hpp"

#include <vindex/error.hpp>

#include <gtest/gtest.h>

namespace vindex::test::forward_backends_test {
namespace {

engine::RunSettings settings_for(engine::BackendChoice backend) {
  engine::RunSettings settings;
  settings.backend = backend;
  settings.threads = 1;
  return settings;
}

TEST(ForwardBackends, TheHostIsSaidWithItsLibrary) {
  std::string note;
  const auto backend = engine::open_forward(settings_for(engine::BackendChoice::kCpu), note);
  EXPECT_EQ(backend->info().name, "cpu");
  EXPECT_EQ(note.rfind("back end: cpu (", 0), 0U) << note;
  EXPECT_NE(note.find("OpenBLAS"), std::string::npos) << note;
  EXPECT_EQ(note.find("GPU"), std::string::npos) << note;
}

TEST(ForwardBackends, AnyBackEndSaysWhyItIsNoDevice) {
  std::string note;
  const auto backend = engine::open_forward(settings_for(engine::BackendChoice::kAuto), note);
  EXPECT_EQ(note.find("no GPU is used: ") == std::string::npos, backend->info().name == "cuda")
      << note;
}

TEST(ForwardBackends, ADeviceThatIsNotThereIsRefused) {
  engine::RunSettings settings = settings_for(engine::BackendChoice::kCuda);
  settings.devices = {4711};
  std::string note;
  try {
    (void)engine::open_forward(settings, note);
    ADD_FAILURE() << "device 4711 was opened";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.id(), "E-NO-GPU");
    EXPECT_NE(std::string(error.what()).find("--backend cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vindex::test::forward_backends_test
