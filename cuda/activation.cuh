// activation: the type that states, activations and their gradients are stored in, and 16-byte packs of it.
//     float, or bfloat16 rounded to the nearest, ties to even; arithmetic is always float32
// paper        none; the conversion is one instruction of sm_80 and later, so that no header beyond these is needed
// launch       device functions and types
// compile      no defines; the including kernel names the type, ACTIVATION = float | foxtune::Bf16
// in / out     Pack<T>::load, store  kWidth neighbours, 4 (float) or 8 (Bf16), from a 16-byte aligned place
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    torch.Tensor.to(torch.bfloat16)   test  tests/kernels/test_relu.py
#pragma once

namespace foxtune {

struct Bf16 {
  unsigned short bits;
};

// Two values as neighbouring bfloat16, `low` first in memory.
__device__ __forceinline__ unsigned int bf16_word(float low, float high) {
  unsigned int word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

template <typename T>
struct Pack;

template <>
struct Pack<float> {
  static constexpr int kWidth = 4;

  static __device__ __forceinline__ void load(const float* place, float (&value)[kWidth]) {
    const float4 pack = *reinterpret_cast<const float4*>(place);
    value[0] = pack.x;
    value[1] = pack.y;
    value[2] = pack.z;
    value[3] = pack.w;
  }

  static __device__ __forceinline__ void store(float* place, const float (&value)[kWidth]) {
    *reinterpret_cast<float4*>(place) = make_float4(value[0], value[1], value[2], value[3]);
  }
};

template <>
struct Pack<Bf16> {
  static constexpr int kWidth = 8;

  static __device__ __forceinline__ void load(const Bf16* place, float (&value)[kWidth]) {
    const uint4 pack = *reinterpret_cast<const uint4*>(place);
    const unsigned int word[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      value[2 * i] = __uint_as_float(word[i] << 16);
      value[2 * i + 1] = __uint_as_float(word[i] & 0xFFFF0000u);
    }
  }

  static __device__ __forceinline__ void store(Bf16* place, const float (&value)[kWidth]) {
    *reinterpret_cast<uint4*>(place) = make_uint4(bf16_word(value[0], value[1]), bf16_word(value[2], value[3]),
                                                  bf16_word(value[4], value[5]), bf16_word(value[6], value[7]));
  }
};

}  // namespace foxtune
