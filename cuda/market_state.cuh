// market_state: the network's input row of a lane, and the numbers that every kernel of the market needs.
//     x = [goal | achieved, agent (7) | clip((feature - center) inverse_scale, -limit, limit) (F) | 1 | 0 ..]
// paper        none; a warp writes a row: lane c owns column c of the prefix, then the table's columns in turn
// launch       device functions for a whole warp that holds the same lane in all its threads
// compile      TABLE_DIM F >= 1;  GOAL_HOLDS_ACHIEVED  1: the goal slot itself holds the achieved goal, 0: the desired
//              ACTIVATION  float | foxtune::Bf16;  --fmad=false
// in / out     features  float32 [bars, F];  center, inverse_scale  float32 [M, F];  limit  float32
//              x         ACTIVATION [rows, Sp], Sp = 8 + F + 1 rounded up to a multiple of 8
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/market_environment.py (compose_prefix), trainer/layout.py   test  tests/kernels/test_market_step.py
#pragma once

#include "activation.cuh"
#include "agent_state.cuh"

namespace foxtune {

constexpr int kWarpLanes = 32;
constexpr int kPrefixDim = 1 + kObserved;
constexpr int kTableDim = TABLE_DIM;
constexpr int kStateDim = kPrefixDim + kTableDim;
constexpr int kStatePitch = (kStateDim + 1 + 7) / 8 * 8;

using Activation = ACTIVATION;

struct Features {
  const float* features;
  const float* center;
  const float* inverse_scale;
  float limit;
};

__device__ __forceinline__ void store_activation(float* place, float value) { *place = value; }

__device__ __forceinline__ void store_activation(Bf16* place, float value) {
  place->bits = static_cast<unsigned short>(bf16_word(value, 0.0f));
}

// The thread's own column of the prefix [goal | observed], in float; 0 from column P on.
template <typename Real>
__device__ __forceinline__ float prefix_column(Real desired, const Real (&observed)[kObserved], int thread) {
  Real own = thread == 0 ? (GOAL_HOLDS_ACHIEVED != 0 ? observed[0] : desired) : Real(0);
#pragma unroll
  for (int column = 0; column < kObserved; ++column) own = thread == column + 1 ? observed[column] : own;
  return static_cast<float>(own);
}

// Writes the row of bar `bar`; `own_prefix` is prefix_column of each thread.
__device__ __forceinline__ void write_state(const Features& table, int member, long long bar, float own_prefix,
                                            int thread, Activation* x) {
  if (thread < kPrefixDim) store_activation(x + thread, own_prefix);
  const float* raw = table.features + bar * kTableDim;
  const float* center = table.center + static_cast<long long>(member) * kTableDim;
  const float* inverse_scale = table.inverse_scale + static_cast<long long>(member) * kTableDim;
  for (int column = thread; column < kTableDim; column += kWarpLanes) {
    const float scaled = (raw[column] - center[column]) * inverse_scale[column];
    store_activation(x + kPrefixDim + column, clamped(scaled, table.limit));
  }
  if (thread < kStatePitch - kStateDim) store_activation(x + kStateDim + thread, thread == 0 ? 1.0f : 0.0f);
}

}  // namespace foxtune
