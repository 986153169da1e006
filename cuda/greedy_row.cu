// greedy_row: the greedy action of one state per member, the whole Q network in one launch.
//     h_0 = x;  h_l = max(0, h_(l-1) W_l), a constant 1 behind h_(l-1) meets the bias row of W_l;  logits of head k =
//     its columns of the last h times its columns of W;  action_k = argmax_a E[Q_k(x, a)], ties: lowest index
// paper        none; a product with one row moves each weight once and computes next to nothing, so that a chain of
//              products pays for its launches alone. A member is spread over CLUSTER processors, which hand their
//              shares of a layer to each other in shared memory: one launch, a barrier per layer
// launch       grid (CLUSTER, M)  block 512, in clusters of CLUSTER blocks  dynamic shared
//              (2 widest + partial sums) x 4 bytes, see trainer/kernels/greedy_row.py; a block owns a share of every
//              layer's columns, a thread 16 bytes of columns and a share of the rows; the first block chooses
// compile      NUM_ATOMS, ACTIONS  see branching_loss.cuh;  ACTIVATION  float | foxtune::Bf16
//              CLUSTER  1 | 2 | 4 | 8, more than 1 from sm_90 on: below it every block computes the whole
//              STATE  Sp;  TRUNK  n256n256 for two layers of 256 product columns;  HEAD  Nn
//              STARTS  n0n16384..  first element of each layer's matrix in a row of `weights`: trunk, hidden layers
//              of the heads, outputs of the heads
// in / out     state        ACTIVATION [M, 1, Sp]  column S is 1, the columns behind it 0
//              weights      ACTIVATION [M, stride_w];  output_bias  float32 [M, stride_b]  first LW of each row
//              v_min, v_max  float32 [M]
//              logits       float32 [M, 1, LW]  out, without bias;  action  uint8 [M, 1, K]  out
//              stride_w, stride_b  int32
// determinism  bitwise: a thread adds its rows in order, a fixed tree adds the threads
// capture      safe: no allocation, no host read
// reference    trainer/networks.py (QNetwork), trainer/reference/advantage_policy.py (greedy_actions)
//              test  tests/kernels/test_greedy_row.py

#include "branching_loss.cuh"
#include "cluster.cuh"

namespace {

using namespace foxtune;

using Activation = ACTIVATION;

constexpr int kThreads = 512;
constexpr int kRanks = cluster_ranks(CLUSTER);
constexpr int kWidth = Pack<Activation>::kWidth;
constexpr int kHeads = kBranches + 1;
constexpr int kActions = kLogitWidth / kAtomPitch - 1;

__host__ __device__ constexpr int trunk_columns(int layer) { return listed(FOXTUNE_TEXT(TRUNK), layer); }
__host__ __device__ constexpr int start_of(int layer) { return listed(FOXTUNE_TEXT(STARTS), layer); }

__host__ __device__ constexpr int trunk_layers() {
  int count = 0;
  while (trunk_columns(count) > 0) ++count;
  return count;
}

constexpr int kTrunk = trunk_layers();

__host__ __device__ constexpr int widest() {
  int most = STATE > kHeads * HEAD ? STATE : kHeads * HEAD;
  for (int layer = 0; layer < kTrunk; ++layer) most = trunk_columns(layer) > most ? trunk_columns(layer) : most;
  most = kLogitWidth > most ? kLogitWidth : most;
  return most + 8;
}

// The value as an activation holds it.
__device__ __forceinline__ float rounded(float value) {
  return sizeof(Activation) == sizeof(float) ? value : __uint_as_float(bf16_word(value, 0.0f) << 16);
}

__device__ __forceinline__ void add_product(const Activation* __restrict__ place, float x, float (&sum)[kWidth]) {
  float value[kWidth];
  Pack<Activation>::load(place, value);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum[i] += x * value[i];
}

// How one layer's columns are spread: over blocks, over `kPacks` threads at a time, the other threads share the rows.
template <int columns>
struct Spread {
  static constexpr int kShare = (columns / kWidth + kRanks - 1) / kRanks;  // packs of a block
  static constexpr int kPacks = kShare < kThreads ? kShare : kThreads;
  static constexpr int kSlices = kThreads / kPacks;
  static constexpr int kPassColumns = kPacks * kWidth;
  static constexpr int kPitch = kPassColumns + 4;  // 16-byte rows that start in other banks

  // Threads that add the slices of a column: a power of two, at most 32, as many as there are threads for.
  static __host__ __device__ constexpr int adders() {
    int count = 1;
    while (count < 32 && count < kSlices && 2 * count * kPassColumns <= kThreads) count *= 2;
    return count;
  }
};

// The block's share of out[c] = sum_r x_c[r] weight[r, c], r < rows; `input_of(c)` names x_c, the same for the columns
// of a pack; `store(c, sum, adder, adders)` is called by every adder of column c.
template <int rows, int columns, typename InputOf, typename Store>
__device__ __forceinline__ void layer(const Activation* __restrict__ weight, float* partial, int rank,
                                      const InputOf& input_of, const Store& store) {
  using Layout = Spread<columns>;
  constexpr int adders = Layout::adders();
  constexpr int rounds = (Layout::kPassColumns * adders + kThreads - 1) / kThreads;
  const int pack = threadIdx.x % Layout::kPacks;
  const int slice = threadIdx.x / Layout::kPacks;
  for (int pass = 0; pass < Layout::kShare; pass += Layout::kPacks) {
    const int first = (rank * Layout::kShare + pass) * kWidth;
    const int column = first + pack * kWidth;
    const bool owns = slice < Layout::kSlices && pass + pack < Layout::kShare && column < columns;
    if (owns) {
      const float* x = input_of(column);
      float sum[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] = 0.0f;
      const Activation* own = weight + slice * columns + column;
      constexpr int whole = rows / Layout::kSlices;  // rows that every slice has; unconditional, so that loads overlap
#pragma unroll 8
      for (int step = 0; step < whole; ++step) {
        const int row = step * Layout::kSlices;
        add_product(own + row * columns, x[slice + row], sum);
      }
      constexpr int rest = whole * Layout::kSlices;
      if (slice + rest < rows) {
        add_product(own + rest * columns, x[slice + rest], sum);
      }
      float* place = partial + slice * Layout::kPitch + pack * kWidth;
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        *reinterpret_cast<float4*>(place + i) = make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
      }
    }
    __syncthreads();
    const int adder = threadIdx.x % adders;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      const int own = (threadIdx.x + round * kThreads) / adders;
      const bool inside = own < Layout::kPassColumns && pass * kWidth + own < Layout::kShare * kWidth &&
                          first + own < columns;
      float total = 0.0f;
      if (inside) {
#pragma unroll 4
        for (int from = adder; from < Layout::kSlices; from += adders) total += partial[from * Layout::kPitch + own];
      }
#pragma unroll
      for (int distance = adders / 2; distance > 0; distance /= 2) {
        total += __shfl_xor_sync(kAllLanes, total, distance);
      }
      if (inside) store(first + own, total, adder, adders);
    }
    if (pass + Layout::kPacks < Layout::kShare) __syncthreads();  // the next pass overwrites the partial sums
  }
}

// A layer with rectifier into `to` of every block of the member, a constant 1 behind it.
template <int rows, int columns>
__device__ __forceinline__ void hidden_layer(const Activation* __restrict__ weight, const float* from, float* to,
                                             float* partial, int rank) {
  layer<rows, columns>(
      weight, partial, rank, [&](int) { return from; },
      [&](int column, float sum, int adder, int adders) {
        const float value = rounded(sum < 0.0f ? 0.0f : sum);
        for (int other = adder; other < kRanks; other += adders) store_in_block<kRanks>(to + column, other, value);
      });
  if (threadIdx.x == 0) to[columns] = 1.0f;
  cluster_barrier<kRanks>();
}

// The trunk from layer `number` on; returns where its last layer lies, and in `spare` the other buffer.
template <int number, int rows>
__device__ __forceinline__ void trunk(const Activation* __restrict__ weights, float*& from, float*& spare,
                                      float* partial, int rank) {
  if constexpr (number < kTrunk) {
    constexpr int columns = trunk_columns(number);
    hidden_layer<rows, columns>(weights + start_of(number), from, spare, partial, rank);
    float* last = from;
    from = spare;
    spare = last;
    trunk<number + 1, columns + 1>(weights, from, spare, partial, rank);
  }
}

__device__ __forceinline__ int head_of(int logit_column) {
  int head = 0;
#pragma unroll
  for (int branch = 0; branch < kBranches; ++branch) head += logit_column >= first_row_of(branch) * kAtomPitch ? 1 : 0;
  return head;
}

// E[Q] of every action of every branch, an action per warp.
__device__ __forceinline__ void expected_values(const float* logits, const float* bias, float v_min, float spacing,
                                                float* quantity) {
  const int lane = threadIdx.x % 32;
  each_branch([&](auto branch) {
    constexpr int actions = decltype(branch)::kActions;
    constexpr int first_row = decltype(branch)::kFirstRow;
    for (int row = threadIdx.x / 32; row < first_row + actions; row += kThreads / 32) {
      if (row < first_row) continue;
      Atoms value, total, unused, probs, shifted;
      load_row(logits, bias, 0, lane, value);
      sum_of_branch(logits, bias, first_row, actions, -1, lane, total, unused);
      load_row(logits, bias, row, lane, probs);
#pragma unroll
      for (int slot = 0; slot < kAtomSlots; ++slot) probs[slot] += value[slot] - total[slot] * (1.0f / actions);
      const float sum = exponentials(probs, shifted, lane);
      const float mean = warp_sum(lane_expectation(probs, v_min, spacing, lane)) / sum;
      if (lane == 0) quantity[row - 1] = mean;
    }
  });
}

}  // namespace

extern "C" __global__ void FOXTUNE_CLUSTERED __launch_bounds__(kThreads, 1)
greedy_row(const Activation* __restrict__ state, const Activation* __restrict__ weights,
           const float* __restrict__ output_bias, const float* __restrict__ v_min, const float* __restrict__ v_max,
           float* __restrict__ logits, unsigned char* __restrict__ action, int stride_w, int stride_b) {
  extern __shared__ __align__(16) float shared[];
  __shared__ float quantity[kActions];
  const int member = blockIdx.y;
  const int rank = kRanks > 1 ? static_cast<int>(blockIdx.x) : 0;
  float* from = shared;
  float* spare = shared + widest();
  float* partial = shared + 2 * widest();
  const Activation* own = weights + static_cast<long long>(member) * stride_w;
  const Activation* x = state + static_cast<long long>(member) * STATE;
  for (int column = threadIdx.x * kWidth; column < STATE; column += kThreads * kWidth) {
    float value[kWidth];
    Pack<Activation>::load(x + column, value);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) from[column + i] = value[i];
  }
  cluster_barrier<kRanks>();  // every block has begun before another writes into its shared memory
  trunk<0, STATE>(own, from, spare, partial, rank);
  constexpr int last = kTrunk == 0 ? STATE : trunk_columns(kTrunk - 1) + 1;
  hidden_layer<last, kHeads * HEAD>(own + start_of(kTrunk), from, spare, partial, rank);

  float* gathered = from;  // the heads read `spare`
  float* out = logits + static_cast<long long>(member) * kLogitWidth;
  layer<HEAD, kLogitWidth>(
      own + start_of(kTrunk + 1), partial, rank, [&](int column) { return spare + head_of(column) * HEAD; },
      [&](int column, float sum, int adder, int) {
        if (adder != 0) return;
        store_in_block<kRanks>(gathered + column, 0, sum);
        out[column] = sum;
      });
  cluster_barrier<kRanks>();
  if (rank != 0) return;
  const float low = v_min[member];
  expected_values(gathered, output_bias + static_cast<long long>(member) * stride_b, low,
                  (v_max[member] - low) / (kAtoms - 1), quantity);
  __syncthreads();
  each_branch([&](auto branch) {
    constexpr int number = decltype(branch)::kNumber;
    constexpr int first_action = decltype(branch)::kFirstRow - 1;
    if (threadIdx.x != number % kThreads) return;
    int best = 0;
    for (int each = 1; each < decltype(branch)::kActions; ++each) {
      best = quantity[first_action + each] > quantity[first_action + best] ? each : best;
    }
    action[static_cast<long long>(member) * kBranches + number] = static_cast<unsigned char>(best);
  });
}
