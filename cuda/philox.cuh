// philox: counter-based random numbers, Philox4x32-10, for every kernel that draws.
//     (x0, x1, x2, x3) <- (hi(M1 x2) ^ x1 ^ k0, lo(M1 x2), hi(M0 x0) ^ x3 ^ k1, lo(M0 x0)), ten times;
//     between two rounds k0 += W0, k1 += W1
// paper        Salmon, Moraes, Dror, Shaw 2011, Parallel Random Numbers: As Easy as 1, 2, 3; stateless, so a
//              draw depends on (seed, fold, purpose, step, lane) alone and never on the order of threads
// launch       device functions, called from any grid; no shared memory, 4 words of state in registers
// compile      no defines
// in / out     key      uint2  (seed, fold)
//              counter  uint4  (purpose, step, lane, 0)
//              result   uint4  four words below 2^32
// determinism  bitwise: integer arithmetic only
// capture      safe: no allocation, no host read; `step` must come from device memory
// reference    trainer/reference/philox.py   test  tests/kernels/test_philox.py
#pragma once

namespace foxtune {

constexpr unsigned int kPhiloxMultiplier0 = 0xD2511F53u;
constexpr unsigned int kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr unsigned int kPhiloxWeyl0 = 0x9E3779B9u;
constexpr unsigned int kPhiloxWeyl1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;

__device__ __forceinline__ uint4 philox(uint2 key, uint4 counter) {
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const unsigned int high0 = __umulhi(kPhiloxMultiplier0, counter.x);
    const unsigned int low0 = kPhiloxMultiplier0 * counter.x;
    const unsigned int high1 = __umulhi(kPhiloxMultiplier1, counter.z);
    const unsigned int low1 = kPhiloxMultiplier1 * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key = make_uint2(key.x + kPhiloxWeyl0, key.y + kPhiloxWeyl1);
  }
  return counter;
}

// The four words of one draw; `purpose` numbers stand in trainer/reference/philox.py (Purpose).
__device__ __forceinline__ uint4 philox_draw(uint2 key, unsigned int purpose, unsigned int step, unsigned int lane) {
  return philox(key, make_uint4(purpose, step, lane, 0u));
}

// [0, 1) with 24 bits, exact in float32.
__device__ __forceinline__ float philox_uniform(unsigned int word) {
  return static_cast<float>(word >> 8) * 5.9604644775390625e-8f;
}

// [0, bound): the high half of word * bound.
__device__ __forceinline__ unsigned int philox_integer(unsigned int word, unsigned int bound) {
  return __umulhi(word, bound);
}

}  // namespace foxtune
