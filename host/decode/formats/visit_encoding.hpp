// Owns the list of decoders and the one switch from a run-time encoding to a compile-time decoder.
// To add a format: write its header, add it to its list, add its test; the host loops, the
// encoding table and the device kernel follow.
//
//   visit_encoding(encoding, [&]<typename Decoder>(Decoder) { kernel<Decoder><<<...>>>(view); });
#pragma once

#include "flat_codes.hpp"
#include "four_bit_blocks.hpp"
#include "fp4_formats.hpp"
#include "iq1_blocks.hpp"
#include "iq2_blocks.hpp"
#include "iq3_blocks.hpp"
#include "k_blocks.hpp"
#include "packed_int.hpp"
#include "scaled_formats.hpp"
#include "simple_blocks.hpp"
#include "ternary_blocks.hpp"
#include "transposed_codes.hpp"

namespace vindex::decode {

template <typename... Decoders>
struct DecoderList {};

// One list per kind, so that adding a format touches one line.
using PlainDecoders =
    DecoderList<PlainDecoder<F64Format>, PlainDecoder<F32Format>, PlainDecoder<F16Format>,
                PlainDecoder<BF16Format>, PlainDecoder<I8Format>, PlainDecoder<I16Format>,
                PlainDecoder<I32Format>, PlainDecoder<I64Format>, PlainDecoder<U8Format>,
                PlainDecoder<U16Format>, PlainDecoder<U32Format>, PlainDecoder<U64Format>,
                PlainDecoder<F8E4M3Format>, PlainDecoder<F8E5M2Format>,
                PlainDecoder<F8E4M3FNUZFormat>, PlainDecoder<F8E5M2FNUZFormat>>;

using GgmlDecoders =
    DecoderList<PlainDecoder<Q4_0Block>, PlainDecoder<Q4_1Block>, PlainDecoder<Q5_0Block>,
                PlainDecoder<Q5_1Block>, PlainDecoder<Q8_0Block>, PlainDecoder<Q4_KBlock>,
                PlainDecoder<Q5_KBlock>, PlainDecoder<Q6_KBlock>, PlainDecoder<Q2_KBlock>,
                PlainDecoder<Q3_KBlock>, PlainDecoder<IQ4_NLBlock>, PlainDecoder<IQ4_XSBlock>,
                PlainDecoder<MXFP4Block>, PlainDecoder<NVFP4Block>, PlainDecoder<TQ1_0Block>,
                PlainDecoder<TQ2_0Block>, PlainDecoder<Q1_0Block>, PlainDecoder<Q2_0Block>,
                PlainDecoder<IQ1_SBlock>, PlainDecoder<IQ1_MBlock>, PlainDecoder<IQ2_XXSBlock>,
                PlainDecoder<IQ2_XSBlock>, PlainDecoder<IQ2_SBlock>, PlainDecoder<IQ3_XXSBlock>,
                PlainDecoder<IQ3_SBlock>>;

/// Codes in one tensor, what they mean in others.
using SchemeDecoders =
    DecoderList<Float8Decoder<F8E4M3Format>, Float8Decoder<F8E5M2Format>,
                Float8Decoder<F8E4M3FNUZFormat>, Float8Decoder<F8E5M2FNUZFormat>, ScaledIntDecoder,
                BnbInt8Decoder, Fp4PairDecoder, PackedIntDecoder<1>, PackedIntDecoder<2>,
                PackedIntDecoder<3>, PackedIntDecoder<4>, PackedIntDecoder<5>, PackedIntDecoder<6>,
                PackedIntDecoder<7>, PackedIntDecoder<8>, PaddedIntDecoder<3>, PaddedIntDecoder<5>,
                PaddedIntDecoder<6>, PaddedIntDecoder<7>, AffineIntDecoder<2>, AffineIntDecoder<3>,
                AffineIntDecoder<4>, AffineIntDecoder<5>, AffineIntDecoder<6>, AffineIntDecoder<8>,
                GptqDecoder<2>, GptqDecoder<3>, GptqDecoder<4>, GptqDecoder<8>, AwqDecoder,
                Lookup4Decoder, HqqDecoder<1>, HqqDecoder<2>, HqqDecoder<3>, HqqDecoder<4>,
                HqqDecoder<8>, TernaryDecoder, FactoredBlockDecoder<NVFP4Block>>;

template <typename... A, typename... B, typename... C>
constexpr DecoderList<A..., B..., C...> join(DecoderList<A...> /*a*/, DecoderList<B...> /*b*/,
                                             DecoderList<C...> /*c*/) {
  return {};
}
using AllDecoders = decltype(join(PlainDecoders{}, GgmlDecoders{}, SchemeDecoders{}));

/// True where `Decoder` decodes `encoding`.
template <typename Decoder>
bool decodes(const Encoding& encoding) {
  return encoding.scheme == Decoder::kScheme && encoding.type == Decoder::kType &&
         encoding.bits == Decoder::kBits;
}

template <typename Visitor, typename... Decoders>
bool visit_encoding_in(DecoderList<Decoders...> /*list*/, const Encoding& encoding,
                       Visitor&& visitor) {
  return ((decodes<Decoders>(encoding) && (visitor(Decoders{}), true)) || ...);
}

/// Calls `visitor` with an object of the decoder of `encoding`; false, and no call, where there is
/// none.
template <typename Visitor>
bool visit_encoding(const Encoding& encoding, Visitor&& visitor) {
  return visit_encoding_in(AllDecoders{}, encoding, visitor);
}

}  // namespace vindex::decode
