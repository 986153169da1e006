// cluster: blocks that run at the same time and reach into each other's shared memory; one block alone needs nothing.
// paper        none; NVIDIA's PTX ISA, barrier.cluster, mapa and st.shared::cluster
// launch       device functions for all threads of the cluster's blocks
// compile      CLUSTER  blocks of a cluster, read by FOXTUNE_CLUSTERED alone, which marks the kernel; from sm_90 on.
//              Below it cluster_ranks is 1, and a kernel treats every block as alone
// in / out     store_in_block  place  float*  of this block's shared memory; the same place of block `rank` is written
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    none   test  tests/kernels/test_greedy_row.py
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FOXTUNE_CLUSTERED __cluster_dims__(CLUSTER, 1, 1)
#else
#define FOXTUNE_CLUSTERED
#endif

namespace foxtune {

// How many blocks really share their memory.
__host__ __device__ constexpr int cluster_ranks(int wanted) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return wanted;
#else
  return wanted > 0 ? 1 : wanted;
#endif
}

// Waits for all threads of all blocks; what they wrote to shared memory before is seen after it.
template <int ranks>
__device__ __forceinline__ void cluster_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (ranks > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

template <int ranks>
__device__ __forceinline__ void store_in_block(float* place, int rank, float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (ranks > 1) {
    const unsigned int here = static_cast<unsigned int>(__cvta_generic_to_shared(place));
    unsigned int there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
    return;
  }
#endif
  *place = value;
}

}  // namespace foxtune
