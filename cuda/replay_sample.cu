// replay_sample: a whole batch per member: prioritised draw, importance weight, states, hindsight goals and rewards.
//     slot(r) by sample_indices; s = [prefix | table row t | 1 | 0], s' = [next prefix | table row t + 1 | 1 | 0];
//     rows r < her_size take a donor's achieved goal in both goal slots and the reward that goal pays
// paper        Schaul et al. 2016 (Prioritized Experience Replay), section 3.4, appendix B.2.1; Andrychowicz et al. 2017
//              (Hindsight Experience Replay), algorithm 1; in one launch, because every part alone only waits for memory
// launch       grid (ceil(B / rows_per_block), M)  block 256  dynamic shared 8 N bytes. A warp searches a slot;
//              then the first threads finish a row's scalars each, next to the last threads, which relabel a row
//              each: two chains of dependent loads at a time; 16 lanes write a state: 4 columns each, 16-byte
//              loads where ALIGNED
// compile      PREFIX_DIM P >= 1, TABLE_DIM F >= 0, GOAL_DIM G, ACHIEVED_OFFSET (+ G <= P), NUM_BRANCHES K >= 1
//              ACTIVATION float | foxtune::Bf16;  SECOND_STATE 1 | 0: s is not written again, for a step without
//              V_low;  ALIGNED 1 if P and F are multiples of 4 on 16-byte addresses, else 0
// in / out     priority, group_mass, block_mass, written, keys, step, per_beta, total_updates  as in sample_indices
//              prefix, next_prefix  float32 [M, C, P];  bar  int32 [M, C];  action  uint8 [M, C, K]
//              reward  float32 [M, C];  terminated  bool [M, C];  episode_start, episode_stop  int64 [M, C]
//              features  float32 [bars, F];  center, inverse_scale  float32 [M, F];  limit  float32
//              her_size, her_strategy, her_future_offset  int32 [M];  her_threshold  float32 [M];  her_weight_one bool [M]
//              batch_state  ACTIVATION [3, M, B, Sp]  out: s, s again, s'; Sp = S + 1 rounded up to a multiple of 8
//              batch_action  uint8 [M, B, K];  batch_reward  float32 [M, B];  batch_terminated  bool [M, B]    out
//              batch_weight  float32 [M, B]  out: raw weight, -1 for a row that weighs exactly 1
//              batch_index, batch_donor  int32 [M, B]  out: slots; the donor of a row that is not relabelled is -1
//              largest_weight  int32 [M]  in: 0, out: bits of the largest raw weight of all B rows
// determinism  bitwise: integer sums, no contraction, the one atomic is a maximum
// capture      safe: no allocation, no host read; step, counters and every searched scalar come from device memory
// reference    trainer/replay.py, trainer/hindsight.py   test  tests/kernels/test_replay_sample.py

#include "activation.cuh"
#include "donor_select.cuh"
#include "hindsight_relabel.cuh"
#include "importance_weight.cuh"
#include "prioritised_sample.cuh"

namespace foxtune {

constexpr int kPrefixDim = PREFIX_DIM;
constexpr int kTableDim = TABLE_DIM;
constexpr int kStateDim = kPrefixDim + kTableDim;
constexpr int kPitch = (kStateDim + 1 + 7) / 8 * 8;
constexpr int kQuad = 4;
constexpr int kLanesPerState = 16;
constexpr int kBlocksPerProcessor = 4;  // bounds the registers from above and below, so that none is spilled
constexpr int kNobody = -1;  // donor of a row that keeps its goal
constexpr int kFirstRelabelling = kThreads - kMostRows;  // other warps than those of the rows' other scalars
static_assert(kFirstRelabelling >= kMostRows && kFirstRelabelling % kWarp == 0, "each kind of work has its own warps");

using Activation = ACTIVATION;

__device__ __forceinline__ void store_quad(float* target, const float (&value)[kQuad]) {
  *reinterpret_cast<float4*>(target) = make_float4(value[0], value[1], value[2], value[3]);
}

__device__ __forceinline__ void store_quad(Bf16* target, const float (&value)[kQuad]) {
  *reinterpret_cast<uint2*>(target) = make_uint2(bf16_word(value[0], value[1]), bf16_word(value[2], value[3]));
}

// What one state is made of.
struct StateParts {
  const float* prefix;         // [P]
  const float* features;       // [F]
  const float* center;         // [F]
  const float* inverse_scale;  // [F]
  const float* goal;           // [G] of the donor, null where the row keeps its own
  float limit;
};

__device__ __forceinline__ float standardised(float raw, float center, float inverse_scale, float limit) {
  const float scaled = __fmul_rn(__fsub_rn(raw, center), inverse_scale);
  return scaled < -limit ? -limit : (scaled > limit ? limit : scaled);
}

__device__ __forceinline__ float state_element(const StateParts& parts, int column) {
  if (column < kPrefixDim) return parts.prefix[column];
  const int feature = column - kPrefixDim;
  if (feature < kTableDim) {
    return standardised(parts.features[feature], parts.center[feature], parts.inverse_scale[feature], parts.limit);
  }
  return column == kStateDim ? 1.0f : 0.0f;
}

__device__ __forceinline__ void spread(const float* source, float (&value)[kQuad]) {
  const float4 quad = *reinterpret_cast<const float4*>(source);
  value[0] = quad.x;
  value[1] = quad.y;
  value[2] = quad.z;
  value[3] = quad.w;
}

__device__ __forceinline__ void state_quad(const StateParts& parts, int column, float (&value)[kQuad]) {
#if ALIGNED
  if (column < kPrefixDim) {
    spread(parts.prefix + column, value);
  } else if (column < kStateDim) {
    const int feature = column - kPrefixDim;
    float center[kQuad], inverse_scale[kQuad];
    spread(parts.features + feature, value);
    spread(parts.center + feature, center);
    spread(parts.inverse_scale + feature, inverse_scale);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) value[i] = standardised(value[i], center[i], inverse_scale[i], parts.limit);
  } else {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) value[i] = column + i == kStateDim ? 1.0f : 0.0f;
  }
#else
#pragma unroll
  for (int i = 0; i < kQuad; ++i) value[i] = state_element(parts, column + i);
#endif
  if (parts.goal != nullptr) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      if (column + i < GOAL_DIM) value[i] = parts.goal[column + i];
    }
  }
}

}  // namespace foxtune

extern "C" __global__ void __launch_bounds__(foxtune::kThreads, foxtune::kBlocksPerProcessor)
replay_sample(const float* __restrict__ priority, const foxtune::Mass* __restrict__ group_mass,
              const foxtune::Mass* __restrict__ block_mass, const long long* __restrict__ written,
              const long long* __restrict__ keys, const long long* __restrict__ step,
              const float* __restrict__ per_beta, const float* __restrict__ total_updates,
              const float* __restrict__ prefix, const float* __restrict__ next_prefix, const int* __restrict__ bar,
              const unsigned char* __restrict__ action, const float* __restrict__ reward,
              const bool* __restrict__ terminated, const long long* __restrict__ episode_start,
              const long long* __restrict__ episode_stop, const float* __restrict__ features,
              const float* __restrict__ center, const float* __restrict__ inverse_scale, float limit,
              const int* __restrict__ her_size, const int* __restrict__ her_strategy,
              const int* __restrict__ her_future_offset, const float* __restrict__ her_threshold,
              const bool* __restrict__ her_weight_one, foxtune::Activation* __restrict__ batch_state,
              unsigned char* __restrict__ batch_action, float* __restrict__ batch_reward,
              bool* __restrict__ batch_terminated, float* __restrict__ batch_weight, int* __restrict__ batch_index,
              int* __restrict__ batch_donor, int* __restrict__ largest_weight, int capacity, int batch_size,
              int multiplier, int rows_per_block) {
  using namespace foxtune;
  extern __shared__ Mass block_prefix[];
  __shared__ DrawnRows drawn;
  __shared__ int donors[kMostRows];
  __shared__ int bars[kMostRows];
  const int member = blockIdx.y, thread = threadIdx.x;
  const uint2 key = member_key(keys, member);
  const unsigned int counter = static_cast<unsigned int>(*step);
  const RingMasses ring = member_masses(priority, group_mass, block_mass, capacity, member);
  const RowRange rows = own_rows(rows_per_block, batch_size, multiplier);
  draw_positions(ring, rows, key, counter, block_prefix, drawn);
  const long long ring_base = static_cast<long long>(member) * capacity;
  const long long batch_base = static_cast<long long>(member) * batch_size + rows.first;

  // The last kMostRows threads choose the donors; all of it that does not depend on the slot is done before the
  // search, while the first threads draw the positions.
  const int relabelling = thread - kFirstRelabelling;
  const bool relabels = relabelling >= 0 && relabelling < min(rows.count, her_size[member] - rows.first);
  DonorDraw donor_draw = {};
  if (relabels) {
    donor_draw.newest_slot = newest_slot_of(*written, capacity);
    donor_draw.word = philox_draw(key, kPurposeDonor, counter, static_cast<unsigned int>(rows.first + relabelling)).x;
  }
  search_rows(ring, rows, block_prefix, drawn);

  if (relabelling >= 0 && relabelling < rows.count) {
    const int slot = drawn.index[relabelling];
    const long long item = ring_base + slot, at = batch_base + relabelling;
    int donor = kNobody;
    float paid = 0.0f;
    if (relabels) {
      const Episode episode = {episode_start[item], episode_stop[item]};
      const float threshold = her_threshold[member];
      donor_draw.strategy = her_strategy[member];
      donor_draw.future_offset = her_future_offset[member];
      donor_draw.newest = *written - 1;
      donor = donor_select(slot, episode, capacity, donor_draw);
      paid = goal_reward(next_prefix + item * kPrefixDim + ACHIEVED_OFFSET,
                         next_prefix + (ring_base + donor) * kPrefixDim + ACHIEVED_OFFSET, GOAL_DIM, threshold);
    } else {
      paid = reward[item];
    }
    batch_terminated[at] = terminated[item];
#pragma unroll
    for (int branch = 0; branch < NUM_BRANCHES; ++branch) {
      batch_action[at * NUM_BRANCHES + branch] = action[item * NUM_BRANCHES + branch];
    }
    donors[relabelling] = donor;
    batch_donor[at] = donor;
    batch_reward[at] = paid;
  }
  if (thread / kWarp * kWarp < rows.count) {  // warps that own a row's other scalars
    float raw = 0.0f;
    if (thread < rows.count) {
      const int slot = drawn.index[thread];
      const long long item = ring_base + slot, at = batch_base + thread;
      bars[thread] = bar[item];
      batch_index[at] = slot;
      const double beta = annealed_beta(*step, per_beta[member], total_updates[member]);
      const Mass total = block_prefix[ring.blocks - 1];  // read anew: fewer registers live through the search
      raw = importance_weight(drawn.mass[thread], total, min(*written, static_cast<long long>(capacity)), beta);
      const bool relabelled = rows.first + thread < her_size[member];
      batch_weight[at] = relabelled && her_weight_one[member] ? kWeighsOne : raw;
    }
    raise_largest(largest_weight + member, raw);
  }
  __syncthreads();

  const long long plane = static_cast<long long>(gridDim.y) * batch_size * kPitch;
  for (int task = thread / kLanesPerState; task < 2 * rows.count; task += kThreads / kLanesPerState) {
    const int row = task / 2, is_next = task % 2, donor = donors[row];
    const long long item = ring_base + drawn.index[row];
    StateParts parts;
    parts.prefix = (is_next != 0 ? next_prefix : prefix) + item * kPrefixDim;
    parts.features = features + (static_cast<long long>(bars[row]) + is_next) * kTableDim;
    parts.center = center + member * kTableDim;
    parts.inverse_scale = inverse_scale + member * kTableDim;
    parts.goal = donor == kNobody ? nullptr : next_prefix + (ring_base + donor) * kPrefixDim + ACHIEVED_OFFSET;
    parts.limit = limit;
    Activation* target = batch_state + (batch_base + row) * kPitch;
    for (int column = thread % kLanesPerState * kQuad; column < kPitch; column += kLanesPerState * kQuad) {
      float value[kQuad];
      state_quad(parts, column, value);
      store_quad(target + (is_next != 0 ? 2 * plane : 0) + column, value);
      if (SECOND_STATE != 0 && is_next == 0) store_quad(target + plane + column, value);
    }
  }
}
