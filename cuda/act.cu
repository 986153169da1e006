// act: an action of every branch from the networks' outputs, sampled or greedy.
//     Q_k(s, a) = sum_j softmax_j(logits_k(a)) z_j;  pi_k(a) ~ exp(beta clip(Q_k(s, a) - V_high(s), -10, 10));
//     action = number of cumulative probabilities <= u, at most n_k - 1;  GREEDY: argmax of Q_k, ties: lowest index
// paper        Kostrikov, Nair & Levine 2021, eq. 7; Bellemare, Dabney & Munos 2017 (E[Q]); inverse distribution
//              function, so that one uniform number decides a branch as it does in the reference
// launch       grid (ceil(R / 4), M)  block 128  static shared 4 x 4 x max n_k bytes; a warp owns a row
// compile      NUM_ATOMS, ACTIONS  see branching_loss.cuh;  ACTIVATION  float | foxtune::Bf16
//              GREEDY  0 | 1;  HAS_VALUE  1: advantages against V_high, 0: against the branch's mean Q
//              HIDDEN  product columns of the value network's last hidden layer, a multiple of 8
// in / out     logits         float32 [M, R, LW]     head output without bias
//              output_bias    float32 [M, stride_q]  first LW of each row;  v_min, v_max  float32 [M]
//              value_hidden   ACTIVATION [M, R, HIDDEN + 8], value_output  float32 [M, stride_v]; read if HAS_VALUE
//              inverse_temperature  float32 [M]  beta
//              keys           int64 [M, 2];  acted  int64 []  actions before this collection
//              position       int32 [M, R]  steps made since; the draw's step is acted + position
//              action         uint8 [M, R, K]  out
//              rows, stride_q, stride_v  int32
// determinism  bitwise: butterfly sums, cumulative sums in order
// capture      safe: no allocation, no host read; counters and every searched scalar come from device memory
// reference    trainer/reference/advantage_policy.py   test  tests/kernels/test_act.py

#include "branching_loss.cuh"
#include "philox.cuh"
#include "value_output.cuh"

namespace {

using namespace foxtune;

constexpr int kRowsPerBlock = 4;
constexpr int kThreads = 32;  // of a row
constexpr int kBlocksPerProcessor = kAtomSlots <= 2 ? 8 : 4;  // bounds the registers, so that none is spilled
constexpr unsigned int kPurposeAction = 6u;
constexpr float kAdvantageLimit = 10.0f;

constexpr bool kGreedy = GREEDY != 0;
constexpr bool kHasValue = HAS_VALUE != 0;

using Activation = ACTIVATION;

__host__ __device__ constexpr int most_actions() {
  int most = 0;
  for (int branch = 0; branch < kBranches; ++branch) most = actions_of(branch) > most ? actions_of(branch) : most;
  return most;
}

constexpr int kMostActions = most_actions();

struct Support {
  float v_min;
  float spacing;
};

// E[Q] of every action of a branch.
__device__ __forceinline__ void expected_values(const float* head, const float* bias, const Atoms& value,
                                                int first_row, int actions, const Support& support, int thread,
                                                float* quantity) {
  Atoms total, unused;
  sum_of_branch(head, bias, first_row, actions, -1, thread, total, unused);
  for (int action = 0; action < actions; ++action) {
    Atoms probs, shifted;
    load_row(head, bias, first_row + action, thread, probs);
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) probs[slot] += value[slot] - total[slot] * (1.0f / actions);
    const float sum = exponentials(probs, shifted, thread);
    const float mean = warp_sum(lane_expectation(probs, support.v_min, support.spacing, thread)) / sum;
    if (thread == 0) quantity[action] = mean;
  }
  __syncwarp();
}

__device__ __forceinline__ int best_of(const float* quantity, int actions) {
  int best = 0;
  for (int action = 1; action < actions; ++action) best = quantity[action] > quantity[best] ? action : best;
  return best;
}

__device__ __forceinline__ float mean_of(const float* quantity, int actions) {
  float sum = 0.0f;
  for (int action = 0; action < actions; ++action) sum += quantity[action];
  return sum * (1.0f / actions);
}

// Turns E[Q] into probabilities, times their sum; returns the sum.
__device__ __forceinline__ float policy_weights(float* quantity, int actions, float level, float beta, int thread) {
  float highest = kLowest;
  for (int action = thread; action < actions; action += kThreads) {
    const float advantage = quantity[action] - level;
    const float inside = advantage < -kAdvantageLimit ? -kAdvantageLimit
                                                      : (advantage > kAdvantageLimit ? kAdvantageLimit : advantage);
    quantity[action] = beta * inside;
    highest = fmaxf(highest, quantity[action]);
  }
  highest = warp_max(highest);
  float sum = 0.0f;
  for (int action = thread; action < actions; action += kThreads) {
    quantity[action] = expf(quantity[action] - highest);
    sum += quantity[action];
  }
  sum = warp_sum(sum);
  __syncwarp();
  return sum;
}

// The first action whose cumulative probability exceeds the draw.
__device__ __forceinline__ int sampled_of(const float* weight, int actions, float sum, float draw) {
  float cumulative = 0.0f;
  int passed = 0;
  for (int action = 0; action < actions; ++action) {
    cumulative += weight[action] / sum;
    passed += cumulative <= draw ? 1 : 0;
  }
  return min(passed, actions - 1);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads * kRowsPerBlock, kBlocksPerProcessor)
act(const float* __restrict__ logits, const float* __restrict__ output_bias, const float* __restrict__ v_min,
    const float* __restrict__ v_max, const Activation* __restrict__ value_hidden,
    const float* __restrict__ value_output, const float* __restrict__ inverse_temperature,
    const long long* __restrict__ keys, const long long* __restrict__ acted, const int* __restrict__ position,
    unsigned char* __restrict__ action, int rows, int stride_q, int stride_v) {
  __shared__ float quantities[kRowsPerBlock][kMostActions];
  const int thread = threadIdx.x % kThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kThreads;
  const int member = blockIdx.y;
  if (row >= rows) return;  // a whole warp; below only warps synchronise
  const long long item = static_cast<long long>(member) * rows + row;
  const float* head = logits + item * kLogitWidth;
  const float* bias = output_bias + static_cast<long long>(member) * stride_q;
  const Support support = {v_min[member], (v_max[member] - v_min[member]) / (kAtoms - 1)};
  float* quantity = quantities[threadIdx.x / kThreads];
  Atoms value;
  load_row(head, bias, 0, thread, value);
  float baseline = 0.0f;
  if constexpr (kHasValue && !kGreedy) {
    baseline = value_of<HIDDEN>(value_hidden + item * (HIDDEN + 8),
                                value_output + static_cast<long long>(member) * stride_v, thread);
  }
  each_branch([&](auto branch) {
    constexpr int number = decltype(branch)::kNumber;
    constexpr int actions = decltype(branch)::kActions;
    expected_values(head, bias, value, decltype(branch)::kFirstRow, actions, support, thread, quantity);
    int chosen;
    if constexpr (kGreedy) {
      chosen = best_of(quantity, actions);
    } else {
      const float level = kHasValue ? baseline : mean_of(quantity, actions);
      __syncwarp();  // all have read what the next line overwrites
      const float sum = policy_weights(quantity, actions, level, inverse_temperature[member], thread);
      const uint2 key = make_uint2(static_cast<unsigned int>(keys[2 * member]),
                                   static_cast<unsigned int>(keys[2 * member + 1]));
      const uint4 words = philox_draw(key, kPurposeAction, static_cast<unsigned int>(*acted + position[item]),
                                      static_cast<unsigned int>(row * kBranches + number));
      chosen = sampled_of(quantity, actions, sum, philox_uniform(words.x));
    }
    if (thread == 0) action[item * kBranches + number] = static_cast<unsigned char>(chosen);
    __syncwarp();  // the next branch overwrites the shared values
  });
}
