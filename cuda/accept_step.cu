// accept_step: judges a gradient step of each member and works out what it does.
//     accept = every TD error, both losses and all norms are finite;  norm_i = sqrt(sum of the pieces of network i)
//     clip_i = min(1, max_norm / (norm_i + 1e-6));  t += accept;  bias corrections 1 - beta^t
// paper        Pascanu, Mikolov & Bengio 2013, algorithm 1; Loshchilov & Hutter 2019, algorithm 2; second stage
//              of gradient_norm. 1 - beta^t as -expm1(t log beta) in float64, without cancellation
// launch       grid (M)  block (512)  no dynamic shared memory; a block owns a member, thread 0 decides
// compile      NETWORKS  3 (Q, V_high, V_low) | 1 (Q alone)
// in / out     part        f32 [M, pieces_q + (NETWORKS - 1) pieces_v]  squared norms of pieces
//              td_error    f32 [M, B]     nats
//              row_terms   f32 [4, M, B]  weighted cross-entropy; both expectile losses; V_high - V_low; clipped
//                                         share of the target
//              learning_rate, beta1, beta2, eps, weight_decay, max_norm, polyak_tau  f32 [M]
//              accept      i32 [M]        out, 1 or 0
//              scalars     f32 [NETWORKS, M, 12]  out, StepScalars
//              adam_step, updates  i64 [M]        accepted steps and all steps, in and out
//              skipped, first_step, first_quantity  i64 [M]  the guard: skipped steps, the first of them, what
//                                         was not finite (0 TD error, 1 critic loss, 2 value loss, 3 norm)
//              means       f32 [5, M]     sums over accepted steps: critic loss, value loss, value gap, norm of
//                                         Q's gradient, clipped share;  count f32 [M]
//              report      f32 [5, M]     out, the same quantities of this step
//              batch, pieces_q, pieces_v  i32
// determinism  bitwise: fixed trees
// capture      safe: no allocation, no host read; step counters live in device memory
// reference    trainer/finite_guard.py, optimiser.py, learning_means.py   test  tests/kernels/test_accept_step.py
#include "reduce.cuh"
#include "step_scalars.cuh"

namespace {

constexpr int kThreads = 512;
constexpr int kQuantities = 5;
constexpr float kNormOffset = 1e-6f;

// Mean over the batch, in thread 0.
__device__ __forceinline__ float mean_of_rows(const float* rows, int batch) {
  float sum = 0.0f;
  for (int row = threadIdx.x; row < batch; row += kThreads) sum += rows[row];
  return static_cast<float>(foxtune::block_sum(static_cast<double>(sum)) / batch);
}

// How many of the rows are not finite, in thread 0.
__device__ __forceinline__ int count_not_finite(const float* rows, int batch) {
  int count = 0;
  for (int row = threadIdx.x; row < batch; row += kThreads) count += isfinite(rows[row]) ? 0 : 1;
  return foxtune::block_sum(count);
}

// Norm of a network from the squared norms of its pieces, in thread 0.
__device__ __forceinline__ float norm_of_pieces(const float* part, int pieces) {
  float sum = 0.0f;
  for (int piece = threadIdx.x; piece < pieces; piece += kThreads) sum += part[piece];
  return static_cast<float>(sqrt(foxtune::block_sum(static_cast<double>(sum))));
}

__device__ __forceinline__ double bias_correction(float beta, long long step) {
  return -expm1(static_cast<double>(step) * log(static_cast<double>(beta)));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    accept_step(const float* __restrict__ part, const float* __restrict__ td_error,
                const float* __restrict__ row_terms, const float* __restrict__ learning_rate,
                const float* __restrict__ beta1, const float* __restrict__ beta2, const float* __restrict__ eps,
                const float* __restrict__ weight_decay, const float* __restrict__ max_norm,
                const float* __restrict__ polyak_tau, int* __restrict__ accept,
                foxtune::StepScalars* __restrict__ scalars, long long* __restrict__ adam_step,
                long long* __restrict__ updates, long long* __restrict__ skipped, long long* __restrict__ first_step,
                long long* __restrict__ first_quantity, float* __restrict__ means, float* __restrict__ count,
                float* __restrict__ report, int batch, int pieces_q, int pieces_v) {
  const int members = gridDim.x;
  const int m = blockIdx.x;
  const long long plane = static_cast<long long>(members) * batch;
  const float* terms = row_terms + static_cast<long long>(m) * batch;
  const float* pieces = part + static_cast<long long>(m) * (pieces_q + (NETWORKS - 1) * pieces_v);

  const int bad_errors = count_not_finite(td_error + static_cast<long long>(m) * batch, batch);
  const float critic_loss = mean_of_rows(terms, batch);
  const float value_loss = mean_of_rows(terms + plane, batch);
  const float value_gap = mean_of_rows(terms + 2 * plane, batch);
  const float clipped_share = mean_of_rows(terms + 3 * plane, batch);
  float norm[NETWORKS];
#pragma unroll
  for (int network = 0; network < NETWORKS; ++network) {
    norm[network] = network == 0 ? norm_of_pieces(pieces, pieces_q)
                                 : norm_of_pieces(pieces + pieces_q + (network - 1) * pieces_v, pieces_v);
  }
  if (threadIdx.x != 0) return;

  bool norms_finite = true;
#pragma unroll
  for (int network = 0; network < NETWORKS; ++network) norms_finite = norms_finite && isfinite(norm[network]);
  int quantity = -1;  // the first that is not finite
  if (!norms_finite) quantity = 3;
  if (!isfinite(value_loss)) quantity = 2;
  if (!isfinite(critic_loss)) quantity = 1;
  if (bad_errors > 0) quantity = 0;
  const bool good = quantity < 0;
  accept[m] = good ? 1 : 0;
  if (!good && first_step[m] < 0) {
    first_step[m] = updates[m];
    first_quantity[m] = quantity;
  }
  const float figures[kQuantities] = {critic_loss, value_loss, value_gap, norm[0], clipped_share};
#pragma unroll
  for (int i = 0; i < kQuantities; ++i) {
    report[i * members + m] = figures[i];
    if (good) means[i * members + m] += figures[i];
  }
  if (good) count[m] += 1.0f;

  skipped[m] += good ? 0 : 1;
  updates[m] += 1;
  const long long step = adam_step[m] + (good ? 1 : 0);
  adam_step[m] = step;

  float clip[NETWORKS];  // before the corrections, whose functions would keep the norms in registers
#pragma unroll
  for (int network = 0; network < NETWORKS; ++network) {
    clip[network] = fminf(max_norm[m] / (norm[network] + kNormOffset), 1.0f);
  }
  foxtune::StepScalars by;
  by.rate = learning_rate[m] / static_cast<float>(bias_correction(beta1[m], step));
  by.root_scale = static_cast<float>(1.0 / sqrt(bias_correction(beta2[m], step)));
  by.accept = good ? 1.0f : 0.0f;
  by.beta1 = beta1[m];
  by.one_minus_beta1 = 1.0f - by.beta1;
  by.beta2 = beta2[m];
  by.one_minus_beta2 = 1.0f - by.beta2;
  by.eps = eps[m];
  by.keep = 1.0f - learning_rate[m] * weight_decay[m];
  by.polyak = polyak_tau[m];
  by.unused = 0.0f;
#pragma unroll
  for (int network = 0; network < NETWORKS; ++network) {
    by.clip = clip[network];
    scalars[network * members + m] = by;
  }
}
