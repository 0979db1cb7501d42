/* exp, log and their like without branches, so that loops of them run in vectors. Series of Taylor, of one argument
   reduced to a small range; errors are a few units in the last place. NaN stays NaN. */

#include <math.h>
#include <string.h>

static inline uint32_t bits_of(float x) {
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

static inline float of_bits(uint32_t u) {
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

/* 2^k for -127 <= k <= 128, which give 0 and infinity. */
static inline float power_of_two(uint32_t k) { return of_bits((k + 127u) << 23); }

#define SHIFT 12582912.0f /* 1.5 * 2^23: added to x, the last bits of the sum are x rounded to an integer */
#define LOG2_E 1.44269504f
#define LN2_HIGH 0.693145751953125f /* ln 2 cut to 16 bits, so that a multiple of it is exact */
#define LN2_LOW 1.42860682e-6f
#define INFINITE __builtin_inff()
#define NOT_A_NUMBER __builtin_nanf("")

/* x = k ln 2 + r, |r| <= ln 2 / 2. */
typedef struct {
    float r;
    uint32_t k;
} Reduced;

static inline Reduced reduce(float x) {
    const float shifted = x * LOG2_E + SHIFT;
    const float k = shifted - SHIFT;
    Reduced reduced;
    reduced.k = bits_of(shifted) - 0x4B400000u;
    reduced.r = (x - k * LN2_HIGH) - k * LN2_LOW;
    return reduced;
}

/* e^r - 1 on the reduced range: r + r^2/2! + ... + r^7/7! */
static inline float small_expm1(float r) {
    const float tail =
        0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040)))));
    return r + r * r * tail;
}

static inline float bounded(float x, float low, float high) {
    x = x > high ? high : x;
    return x < low ? low : x;
}

static inline float exp_of_reduced(Reduced reduced) {
    const uint32_t half = (uint32_t)((int32_t)reduced.k >> 1); /* two factors: either alone may leave the range */
    return (1.0f + small_expm1(reduced.r)) * power_of_two(half) * power_of_two(reduced.k - half);
}

static inline float exp_of(float x) { return exp_of_reduced(reduce(bounded(x, -104.5f, 89.5f))); }

/* e^(a - b), a <= b. The difference is rounded, which counts where it is large: what is lost goes into r. */
static inline float exp_of_difference(float a, float b) {
    const float x = a - b, part = x + b;
    const float lost = (a - part) - (b - (part - x));
    Reduced reduced = reduce(bounded(x, -104.5f, 89.5f));
    reduced.r += x >= -104.5f ? lost : 0.0f; /* of an infinite one it is NaN */
    return exp_of_reduced(reduced);
}

/* 1 / (1 + e^-x), all of it times 2^-24, so that e^-x stays in the range for as long as the result is not 0. */
static inline float sigmoid_of(float x) {
    const Reduced reduced = reduce(bounded(-x, -70.0f, 104.5f));
    const float unit = 1.0f / 16777216;
    return unit / (unit + (1.0f + small_expm1(reduced.r)) * power_of_two(reduced.k - 24u));
}

/* tanh(x) = m / (m + 2) with m = e^(2x) - 1, which keeps its digits near 0. */
static inline float tanh_of(float x) {
    const Reduced reduced = reduce(bounded(2.0f * x, -30.0f, 30.0f));
    const float scale = power_of_two(reduced.k);
    const float m = scale * small_expm1(reduced.r) + (scale - 1.0f);
    return m / (m + 2.0f);
}

/* log m = 2 artanh(s) with s = (m - 1) / (m + 1), for sqrt(1/2) <= m < sqrt(2). */
static inline float log_of(float x) {
    const int tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const uint32_t u = bits_of(scaled);
    const int32_t k = (int32_t)(u - 0x3F3504F3u) >> 23; /* the bits of sqrt(1/2) */
    const float f = of_bits(u - ((uint32_t)k << 23)) - 1.0f;
    const float s = f / (2.0f + f), z = s * s;
    const float exponent = (float)(tiny ? k - 23 : k);
    const float tail = z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9 + z * (1.0f / 11)))));
    const float value = exponent * LN2_HIGH + (2.0f * s + (2.0f * s * tail + exponent * LN2_LOW));
    return x > 0.0f ? (x < INFINITE ? value : x) : (x == 0.0f ? -INFINITE : NOT_A_NUMBER);
}

/* log(1 + e^x) = max(x, 0) + 2 artanh(s) with s = u / (2 + u) and u = e^-|x| <= 1. */
static inline float softrelu_of(float x) {
    const float u = exp_of(-fabsf(x)), s = u / (2.0f + u), z = s * s;
    const float tail = 1.0f / 7 + z * (1.0f / 9 + z * (1.0f / 11 + z * (1.0f / 13 + z * (1.0f / 15))));
    return (x > 0.0f ? x : 0.0f) + (2.0f * s + 2.0f * s * (z * (1.0f / 3 + z * (1.0f / 5 + z * tail))));
}
