// donor_select: which stored transition's achieved goal becomes the new goal of a relabelled row.
//     final end - 1 | future uniform on [i + offset, end - 1], i itself if empty | episode uniform on
//     [start, end - 1] | random uniform on all stored
// paper        Andrychowicz et al. 2017, Hindsight Experience Replay, section 4.5; ages before the newest item instead
//              of write positions modulo C: one 64-bit division for a row, none for its donor
// launch       device functions; a thread owns a row
// compile      no defines
// in / out     start, stop  int64  write positions of the row's episode, stop exclusive
//              written      int64  items written since the start
//              result       int32  slot of the donor; the row itself where its episode is no longer whole
// determinism  bitwise: integer arithmetic only
// capture      safe: no allocation, no host read
// reference    trainer/reference/donor_select.py   test  tests/kernels/test_replay_sample.py
#pragma once

#include "philox.cuh"

namespace foxtune {

constexpr unsigned int kPurposeDonor = 3u;  // as numbered in trainer/reference/philox.py

// In the order of STRATEGIES in trainer/hyperparameters.py.
constexpr int kStrategyFinal = 0;
constexpr int kStrategyFuture = 1;
constexpr int kStrategyEpisode = 2;
constexpr int kStrategyRandom = 3;

// What a choice needs beside the row's slot and episode: known before the row is drawn.
struct DonorDraw {
  int strategy;
  int future_offset;
  long long newest;  // write position of the newest item
  int newest_slot;
  unsigned int word;  // the row's random number
};

struct Episode {
  long long start;
  long long stop;
};

__device__ __forceinline__ int newest_slot_of(long long written, int capacity) {
  return static_cast<int>((written - 1) % capacity);
}

__device__ __forceinline__ int donor_select(int slot, Episode episode, int capacity, const DonorDraw& draw) {
  const long long written = draw.newest + 1;
  if (draw.strategy == kStrategyRandom) {
    const long long stored = min(written, static_cast<long long>(capacity));
    return static_cast<int>(philox_integer(draw.word, static_cast<unsigned int>(stored)));
  }
  if (episode.start < written - capacity) return slot;
  const int age = draw.newest_slot >= slot ? draw.newest_slot - slot : draw.newest_slot - slot + capacity;
  const long long last = min(episode.stop, written) - 1;
  long long first = last;
  if (draw.strategy == kStrategyFuture) first = min(draw.newest - age + draw.future_offset, last);
  if (draw.strategy == kStrategyEpisode) first = episode.start;
  const unsigned int choices = static_cast<unsigned int>(last - first + 1);
  const long long chosen = first + philox_integer(draw.word, choices);
  const int donor = draw.newest_slot - static_cast<int>(draw.newest - chosen);
  return donor >= 0 ? donor : donor + capacity;
}

}  // namespace foxtune
