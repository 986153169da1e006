// c51_double_dqn_step: loss of branching C51 under Double DQN and its gradient at the head's output.
//     a*_k = argmax_a E[Q_k(s', a)] (online; ties: the lowest index);  p = (1 / K) sum_k p_target,k(s', a*_k)
//     m_j = sum_i p_i max(0, 1 - |clip(r + gamma (1 - terminated) z_i) - z_j| / delta_z)
//     critic = (1 / B) sum_b w_b mean_k CE(m_b, p_bk);  delta_b = mean_k KL(m_b || p_bk)
// paper        van Hasselt, Guez & Silver 2016, eq. 4; Bellemare, Dabney & Munos 2017, eq. 7, in gather form: every
//              atom sums over all sources, so no atomics; Tavakoli, Pardo & Kormushev 2018, eq. 5
// launch       grid (ceil(B / 4), M)  block (128)  static shared 2 x 4 x Z floats; one warp per batch row
// compile      NUM_ATOMS, ACTIONS  see branching_loss.cuh;  ACTIVATION  float | foxtune::Bf16
// in / out     logits         f32 [M, B, LW]      Q(s), head output without bias
//              next_logits    f32 [M, B, LW]      Q(s'), online;  target_logits  f32 [M, B, LW] of the slow copy
//              output_bias, target_bias  f32 [M, stride_q]  first LW of each row
//              action         u8  [M, B, K];  reward f32 [M, B];  terminated u8 [M, B]
//              weight         f32 [M, B]  raw importance weight, -1 = exactly 1;  largest_weight i32 [M] its bits
//              gamma, v_min, v_max  f32 [M]
//              logit_slope    T   [M, B, LW]      out, d critic / d head
//              td_error       f32 [M, B]          out, nats
//              row_terms      f32 [4, M, B]       out, weighted cross-entropy; 0; 0; clipped share of the target
//              batch, stride_q  i32
// determinism  bitwise: butterfly sums, sources in order, no atomics
// capture      safe: no allocation, no host read; every scalar is read from device memory
// reference    trainer/reference/double_dqn_target.py, c51_project.py (scatter form), c51_loss.py
//              test  tests/kernels/test_c51_double_dqn_step.py
#include "branching_loss.cuh"

using Activation = ACTIVATION;

namespace {

using namespace foxtune;

constexpr int kRowsPerBlock = 4;
constexpr int kBlocksPerProcessor = kAtomSlots <= 2 ? 6 : 4;  // bounds the registers, so that none is spilled

// The action of one branch with the largest E[Q]; the same in all lanes.
__device__ __forceinline__ int best_action(const float* head, const float* bias, const Atoms& value, int first_row,
                                           int actions, float v_min, float spacing, int lane) {
  Atoms total, unused;
  sum_of_branch(head, bias, first_row, actions, -1, lane, total, unused);
  int best = 0;
  float highest = kLowest;
  for (int action = 0; action < actions; ++action) {
    Atoms probs, shifted;
    load_row(head, bias, first_row + action, lane, probs);
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) probs[slot] += value[slot] - total[slot] * (1.0f / actions);
    const float sum = exponentials(probs, shifted, lane);
    const float quantity = warp_sum(lane_expectation(probs, v_min, spacing, lane)) / sum;
    if (quantity > highest) {
      highest = quantity;
      best = action;
    }
  }
  return best;
}

// The mixture over the branches of the target network's distributions at the online network's choices.
__device__ __forceinline__ void next_distribution(const float* next, const float* bias, const float* slow,
                                                  const float* slow_bias, float v_min, float spacing, int lane,
                                                  Atoms& mixture) {
  Atoms value, slow_value;
  load_row(next, bias, 0, lane, value);
  load_row(slow, slow_bias, 0, lane, slow_value);
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) mixture[slot] = 0.0f;
  each_branch([&](auto branch) {
    constexpr int actions = decltype(branch)::kActions;
    constexpr int first_row = decltype(branch)::kFirstRow;
    const int best = best_action(next, bias, value, first_row, actions, v_min, spacing, lane);
    Atoms probs, shifted;
    chosen_logits(slow, slow_bias, slow_value, first_row, actions, best, lane, probs);
    const float sum = exponentials(probs, shifted, lane);
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) mixture[slot] += probs[slot] / sum;
  });
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) mixture[slot] *= 1.0f / kBranches;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kRowsPerBlock, kBlocksPerProcessor)
    c51_double_dqn_step(const float* __restrict__ logits, const float* __restrict__ next_logits,
                        const float* __restrict__ target_logits, const float* __restrict__ output_bias,
                        const float* __restrict__ target_bias, const unsigned char* __restrict__ action,
                        const float* __restrict__ reward, const unsigned char* __restrict__ terminated,
                        const float* __restrict__ weight, const int* __restrict__ largest_weight,
                        const float* __restrict__ gamma, const float* __restrict__ v_min,
                        const float* __restrict__ v_max, Activation* __restrict__ logit_slope,
                        float* __restrict__ td_error, float* __restrict__ row_terms, int batch, int stride_q) {
  __shared__ float mass_of[kRowsPerBlock][kAtoms];
  __shared__ float position_of[kRowsPerBlock][kAtoms];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = blockIdx.x * kRowsPerBlock + warp;
  const int m = blockIdx.y;
  if (row >= batch) return;  // a whole warp; below only warps synchronise
  const long long item = static_cast<long long>(m) * batch + row;
  const long long plane = static_cast<long long>(gridDim.y) * batch;
  const float* bias = output_bias + static_cast<long long>(m) * stride_q;
  const float low = v_min[m], high = v_max[m];
  const float spacing = (high - low) / (kAtoms - 1);

  Atoms next;
  next_distribution(next_logits + item * kLogitWidth, bias, target_logits + item * kLogitWidth,
                    target_bias + static_cast<long long>(m) * stride_q, low, spacing, lane, next);
  const float discount = terminated[item] ? 0.0f : gamma[m];
  float clipped = 0.0f;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    const int atom = atom_of(slot, lane);
    if (atom >= kAtoms) continue;
    const float location = reward[item] + discount * (low + static_cast<float>(atom) * spacing);
    mass_of[warp][atom] = next[slot];
    position_of[warp][atom] = atom_position(location, low, high, spacing);
    clipped += location < low || location > high ? next[slot] : 0.0f;
  }
  clipped = warp_sum(clipped);
  __syncwarp();
  Atoms target;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) target[slot] = 0.0f;
  for (int source = 0; source < kAtoms; ++source) {
    const float mass = mass_of[warp][source];
    const float position = position_of[warp][source];
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) {
      const int atom = atom_of(slot, lane);
      if (atom < kAtoms) target[slot] += mass * hat(position, atom);
    }
  }

  const float importance = row_weight(weight[item], largest_weight[m]);
  const BranchingLoss loss = branching_loss(
      logits + item * kLogitWidth, bias, action + item * kBranches, target,
      importance * (1.0f / (static_cast<float>(batch) * kBranches)), low, spacing, lane,
      logit_slope + item * kLogitWidth);
  const float divergence = loss.cross_entropy + negative_entropy(target);
  if (lane != 0) return;
  td_error[item] = divergence;
  row_terms[item] = importance * loss.cross_entropy;
  row_terms[plane + item] = 0.0f;
  row_terms[2 * plane + item] = 0.0f;
  row_terms[3 * plane + item] = clipped;
}
