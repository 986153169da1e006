// step_scalars: what one gradient step does to all parameters of one network of a member.
//     w *= keep (weights);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//     w -= rate m / (sqrt(v) root_scale + eps);  target += polyak (w - target),  with g = clip x gradient
// paper        Loshchilov & Hutter 2019, algorithm 2; Pascanu, Mikolov & Bengio 2013, algorithm 1 (clip)
// launch       a struct; written by accept_step, read by every thread of adamw_step
// compile      no defines
// in / out     12 float32, 48 bytes, as one row of a tensor [networks, M, 12]
// determinism  bitwise
// capture      safe: lives in device memory, so that every replay sees this step's values
// reference    trainer/reference/adamw.py   test  tests/kernels/test_adamw_step.py
#pragma once

namespace foxtune {

struct alignas(16) StepScalars {
  float accept;  // 1, or 0: the member's step is skipped and nothing may change
  float clip;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float rate;  // learning rate / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float keep;  // 1 - learning rate x weight decay
  float polyak;
  float unused;
};

}  // namespace foxtune
