/* The kernels for processors with AVX2 and FMA. */

#if defined(__x86_64__)
#include <math.h>
#include <string.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define LANES 8
#define TALL 6
#define NAME "avx2"
#define KERNELS rows_avx2
#include "kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int rows_avx2_is_not_here;
#endif
