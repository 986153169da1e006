// hindsight_relabel: the reward that a transition earns under another goal.
//     +1 if ||achieved - goal||_2 < threshold, else -.01
// paper        Andrychowicz et al. 2017, Hindsight Experience Replay, section 3.2; squares added in ascending order
//              without contraction, as the reference adds them
// launch       device function; a thread owns a row
// compile      no defines
// in / out     achieved, goal  float32 [width]
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/reference/hindsight_relabel.py   test  tests/kernels/test_replay_sample.py
#pragma once

namespace foxtune {

constexpr float kReachedReward = 1.0f;
constexpr float kMissedReward = -0.01f;

__device__ __forceinline__ float goal_reward(const float* achieved, const float* goal, int width, float threshold) {
  float squared = 0.0f;
  for (int column = 0; column < width; ++column) {
    const float difference = __fsub_rn(achieved[column], goal[column]);
    squared = __fadd_rn(squared, __fmul_rn(difference, difference));
  }
  return __fsqrt_rn(squared) < threshold ? kReachedReward : kMissedReward;
}

}  // namespace foxtune
