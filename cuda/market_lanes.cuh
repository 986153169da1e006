// market_lanes: where the lanes of the market live, where an episode starts, and where its transitions go.
//     start row = train_start + integer(word, train_rows - (L - position)),  goal = table[integer(word, 4096)];
//     slot = (written + e L + position) mod C
// paper        Schaul et al. 2016, algorithm 1, line 6 (store); draws by counter, so that a restart needs no table
// launch       device functions for a whole warp that owns one (member, lane)
// compile      as market_state.cuh
// in / out     keys  int64 [M, 2];  steps  int64 []  environment steps before this collection
//              train_start, train_rows  int64 [M];  goals  float32 [4096];  written  int64 []
// determinism  bitwise: a draw depends on (seed, fold, step, lane) alone
// capture      safe: no allocation, no host read; counters come from device memory
// reference    trainer/market_environment.py   test  tests/kernels/test_market_begin.py
#pragma once

#include "market_state.cuh"
#include "philox.cuh"

namespace foxtune {

constexpr int kWarpsPerBlock = 4;
constexpr unsigned int kPurposeEpisodeStart = 4u;
constexpr unsigned int kPurposeGoal = 5u;
constexpr unsigned int kGoalQuantiles = 4096u;

struct StartRule {
  const long long* keys;
  const long long* steps;
  const long long* train_start;
  const long long* train_rows;
  const float* goals;
};

struct Start {
  int bar;
  float goal;
};

__device__ __forceinline__ uint2 key_of_member(const long long* keys, int member) {
  return make_uint2(static_cast<unsigned int>(keys[2 * member]), static_cast<unsigned int>(keys[2 * member + 1]));
}

// Where the episode that begins after `position` steps of the lane starts; the rest of the lane must fit.
__device__ __forceinline__ Start draw_start(const StartRule& rule, int member, int lane, int position, int length) {
  const uint2 key = key_of_member(rule.keys, member);
  const unsigned int when = static_cast<unsigned int>(*rule.steps + position);
  const unsigned int rows = static_cast<unsigned int>(rule.train_rows[member] - (length - position));
  const uint4 of_bar = philox_draw(key, kPurposeEpisodeStart, when, static_cast<unsigned int>(lane));
  const uint4 of_goal = philox_draw(key, kPurposeGoal, when, static_cast<unsigned int>(lane));
  return {static_cast<int>(rule.train_start[member] + philox_integer(of_bar.x, rows)),
          rule.goals[philox_integer(of_goal.x, kGoalQuantiles)]};
}

// Slot of a lane's transition, counted over all members.
__device__ __forceinline__ long long ring_slot(int member, int lane, int position, int length, int capacity,
                                               long long written) {
  const long long item = written + static_cast<long long>(lane) * length + position;
  return static_cast<long long>(member) * capacity + item % capacity;
}

}  // namespace foxtune
