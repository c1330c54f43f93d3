// Owns faults that a test plants in a stage of the CPU back end: the linker leads every call of a
// stage through here (--wrap), so that the product needs no seam of its own. Nothing is planted
// unless asked for.
#pragma once

#include <cstdint>
#include <string>

namespace vindex::cpu::planted_faults {

enum class Stage : std::uint8_t {
  kBand64,       ///< dense to band, float64, also where float32 goes on
  kBand32,       ///< the same in float32, of what a float64 one leaves too
  kPartialBand,  ///< the same that ends early (`fast`)
  kChase,        ///< band to tridiagonal
  kOneStage,     ///< dense to tridiagonal, either precision (small matrices)
  kValues,       ///< eigenvalues of a Gram matrix, once they are found
  kFactor,       ///< QR of the weights, row block by row block
  kBidiagonal,   ///< triangle to bidiagonal
};

enum class Fault : std::uint8_t {
  kNone,
  kWrongReflector,   ///< I - tau v v^T with a tau that its v does not have
  kDroppedRotation,  ///< what it should have turned away is forgotten
  kLostValue,        ///< one singular value is another one's
};

/// Plants from now on whenever the stage runs, until the end of its life. kNone counts how often
/// kValues runs, which is once for each Gram matrix.
class Planted {
 public:
  Planted(Stage stage, Fault fault);
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  ~Planted();
  /// How often the stage has run with it.
  static int count();
};

/// Whether such a fault makes sense in the stage.
bool can_be_planted(Stage stage, Fault fault);
std::string name_of(Stage stage);
std::string name_of(Fault fault);

}  // namespace vindex::cpu::planted_faults
