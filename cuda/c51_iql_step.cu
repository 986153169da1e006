// c51_iql_step: losses of implicit Q-learning on branching C51 and all gradients at the networks' outputs.
//     m = projection of the point r + gamma (1 - terminated) V_target(s') on two atoms
//     critic = (1 / B) sum_b w_b mean_k CE(m_b, p_bk);  delta_b = mean_k KL(m_b || p_bk)
//     u = mean_k E[Q_k(s, a_k)] - V(s);  value = (1 / B) sum_b |tau - 1(u < 0)| u^2 for V_high, 1 - tau for V_low
// paper        Kostrikov, Nair & Levine 2021, eq. 4 to 6; Bellemare, Dabney & Munos 2017, algorithm 1. One warp per
//              row reads every logit once; the last layer of the value networks is a dot product made here
// launch       grid (ceil(B / 4), M)  block (128)  no dynamic shared memory; one warp per batch row
// compile      NUM_ATOMS, ACTIONS  see branching_loss.cuh;  ACTIVATION  float | foxtune::Bf16
//              HIDDEN  product columns of the value networks' last hidden layer, a multiple of 8
//              HAS_VALUE  1 | 0: value_output f32 [M, B] is V_target(s') itself, the other value arrays are neither
//              read nor written and their terms are 0: the critic alone, which IQL's cost is measured against
// in / out     logits         f32 [M, B, LW]          Q's head output without bias
//              output_bias    f32 [M, stride_q]       first LW of each row
//              value_hidden   T   [3 M, B, HIDDEN + 8]  V_high(s), V_low(s), V_target(s'); column HIDDEN is 1
//              value_output   f32 [3 M, stride_v]     first HIDDEN + 8 of each row, element HIDDEN is the bias
//              action         u8  [M, B, K];  reward f32 [M, B];  terminated u8 [M, B]
//              weight         f32 [M, B]  raw importance weight, -1 = exactly 1;  largest_weight i32 [M] its bits
//              gamma, expectile, v_min, v_max  f32 [M]
//              logit_slope    T   [M, B, LW]          out, d critic / d head
//              value_slope    T   [2 M, B, 8]         out, column 0 d value / d V, others 0
//              hidden_slope   T   [2 M, B, HIDDEN]    out, d value / d last hidden layer before the rectifier
//              td_error       f32 [M, B]              out, nats
//              row_terms      f32 [4, M, B]           out, weighted cross-entropy; both expectile losses;
//                                                     V_high - V_low; 1 where the target was clipped
//              batch, stride_q, stride_v  i32
// determinism  bitwise: butterfly sums, no atomics
// capture      safe: no allocation, no host read; every scalar is read from device memory
// reference    trainer/reference/c51_loss.py, expectile_loss.py   test  tests/kernels/test_c51_iql_step.py
#include "branching_loss.cuh"
#include "value_output.cuh"

using Activation = ACTIVATION;

namespace {

using namespace foxtune;

constexpr int kRowsPerBlock = 4;
constexpr int kBlocksPerProcessor = kAtomSlots <= 2 ? 6 : 4;  // bounds the registers, so that none is spilled
constexpr int kHiddenPitch = HIDDEN + 8;
constexpr bool kHasValue = HAS_VALUE != 0;
using HiddenPack = Pack<Activation>;

// d loss / d hidden through the rectifier, from d loss / d V.
__device__ __forceinline__ void spread_slope(const Activation* hidden, const float* output, float slope, int lane,
                                             Activation* target) {
  for (int first = lane * HiddenPack::kWidth; first < HIDDEN; first += 32 * HiddenPack::kWidth) {
    float x[HiddenPack::kWidth];
    HiddenPack::load(hidden + first, x);
#pragma unroll
    for (int i = 0; i < HiddenPack::kWidth; ++i) x[i] = x[i] <= 0.0f ? 0.0f : slope * __ldg(output + first + i);
    HiddenPack::store(target + first, x);
  }
}

// |tau - 1(u < 0)|
__device__ __forceinline__ float asymmetry(float difference, float tau) {
  return difference < 0.0f ? 1.0f - tau : tau;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kRowsPerBlock, kBlocksPerProcessor)
    c51_iql_step(const float* __restrict__ logits, const float* __restrict__ output_bias,
                 const Activation* __restrict__ value_hidden, const float* __restrict__ value_output,
                 const unsigned char* __restrict__ action, const float* __restrict__ reward,
                 const unsigned char* __restrict__ terminated, const float* __restrict__ weight,
                 const int* __restrict__ largest_weight, const float* __restrict__ gamma,
                 const float* __restrict__ expectile, const float* __restrict__ v_min,
                 const float* __restrict__ v_max, Activation* __restrict__ logit_slope,
                 Activation* __restrict__ value_slope, Activation* __restrict__ hidden_slope,
                 float* __restrict__ td_error, float* __restrict__ row_terms, int batch, int stride_q, int stride_v) {
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / 32;
  const int m = blockIdx.y;
  if (row >= batch) return;
  const long long members = gridDim.y;
  const long long item = static_cast<long long>(m) * batch + row;
  const long long plane = members * batch;  // rows of one network over all members

  const float* output[3] = {};
  float value[3] = {};  // V_high(s), V_low(s), V_target(s')
  if constexpr (kHasValue) {
#pragma unroll
    for (int network = 0; network < 3; ++network) {
      output[network] = value_output + (network * members + m) * stride_v;
      value[network] = value_of<HIDDEN>(value_hidden + (network * plane + item) * kHiddenPitch, output[network], lane);
    }
  } else {
    value[2] = value_output[item];
  }

  const float low = v_min[m], high = v_max[m];
  const float spacing = (high - low) / (kAtoms - 1);
  // A terminal row must not see the next value at all: 0 * inf would be NaN.
  const float location = reward[item] + (terminated[item] ? 0.0f : gamma[m] * value[2]);
  const float position = atom_position(location, low, high, spacing);
  Atoms target;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    const int atom = atom_of(slot, lane);
    target[slot] = atom < kAtoms ? hat(position, atom) : 0.0f;
  }

  const float importance = row_weight(weight[item], largest_weight[m]);
  const BranchingLoss loss = branching_loss(
      logits + item * kLogitWidth, output_bias + static_cast<long long>(m) * stride_q, action + item * kBranches,
      target, importance * (1.0f / (static_cast<float>(batch) * kBranches)), low, spacing, lane,
      logit_slope + item * kLogitWidth);
  const float divergence = loss.cross_entropy + negative_entropy(target);

  float value_loss = 0.0f;
#pragma unroll
  for (int network = 0; network < (kHasValue ? 2 : 0); ++network) {
    const float tau = network == 0 ? expectile[m] : 1.0f - expectile[m];
    const float difference = loss.quantity - value[network];
    const float weighted = asymmetry(difference, tau) * difference;
    const float slope = weighted * (-2.0f / batch);
    const long long place = network * plane + item;
    value_loss += weighted * difference;
    spread_slope(value_hidden + place * kHiddenPitch, output[network], slope, lane, hidden_slope + place * HIDDEN);
    if (lane < 4) store_pair(value_slope + place * 8 + 2 * lane, lane == 0 ? slope : 0.0f, 0.0f);
  }

  if (lane != 0) return;
  td_error[item] = divergence;
  row_terms[item] = importance * loss.cross_entropy;
  row_terms[plane + item] = value_loss;
  row_terms[2 * plane + item] = value[0] - value[1];
  row_terms[3 * plane + item] = location < low || location > high ? 1.0f : 0.0f;
}
