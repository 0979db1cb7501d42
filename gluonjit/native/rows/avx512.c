/* The kernels for processors with AVX-512. */

#if defined(__x86_64__)
#include <math.h>
#include <string.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif

#define LANES 16
#define TALL 12
#define NAME "avx512"
#define KERNELS rows_avx512
#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int rows_avx512_is_not_here;
#endif
