/* Some numbers at a time (eight, unless LANES says sixteen), and the functions of them that a step takes.

   Vector types of GCC and Clang: whatever the machine has (AVX2, AVX-512, NEON, nothing) computes them, without
   intrinsics. Sums have one order, whatever the batch, so a clip never depends on the clips beside it.  */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#ifndef LANES
#define LANES 8
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *from) {
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, vec v) { memcpy(to, &v, sizeof v); }

INLINE vec broadcast(float x) { return x - (vec){0}; }

INLINE vec choose(ivec where, vec yes, vec no) { return (vec)((where & (ivec)yes) | (~where & (ivec)no)); }

INLINE vec clamp(vec x, float low, float high) {
    x = choose(x < low, broadcast(low), x);
    return choose(x > high, broadcast(high), x);
}

/* a b + c with one rounding, where the machine has that. Compilers avoid it in some sums, on some machines and for some
   widths, so the sums that have to be equal in every tile ask for it. */
INLINE vec fused(vec a, vec b, vec c) {
#if defined(__AVX512F__) && LANES == 16
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && LANES == 8
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

#if LANES == 8
INLINE float sum(vec v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
#else
typedef float half_vec __attribute__((vector_size(32)));
INLINE float sum(vec v) {
    half_vec halves[2];
    memcpy(halves, &v, sizeof v);
    half_vec w = halves[0] + halves[1];
    return ((w[0] + w[4]) + (w[2] + w[6])) + ((w[1] + w[5]) + (w[3] + w[7]));
}
#endif

INLINE float largest(vec v) {
    float most = v[0];
    for (int i = 1; i < LANES; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

/* exp to 2 units of the last place: 2^k times a polynomial over half an octave to each side (Cephes). */
INLINE vec exp_of(vec x) {
    x = clamp(x, -87.33f, 88.37f);
    vec shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum's last bits are the rounded integer */
    ivec k = (ivec)shifted - 0x4B400000;
    vec whole = shifted - 12582912.0f;
    vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (vec)((k + 127) << 23);
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exp_of(-x)); }

/* erf as a ratio of polynomials over [-4, 4], beyond which it is one in float32 (the coefficients of Eigen). */
INLINE vec erf_of(vec x) {
    x = clamp(x, -4.0f, 4.0f);
    vec s = x * x;
    vec p = s * -2.72614225801306e-10f + 2.77068142495902e-08f;
    p = p * s + -2.10102402082508e-06f;
    p = p * s + -5.69250639462346e-05f;
    p = p * s + -7.34990630326855e-04f;
    p = p * s + -2.95459980854025e-03f;
    p = p * s + -1.60960333262415e-02f;
    vec q = s * -1.45660718464996e-05f + -2.13374055278905e-04f;
    q = q * s + -1.68282697438203e-03f;
    q = q * s + -7.37332916720468e-03f;
    q = q * s + -1.42647390514189e-02f;
    return x * p / q;
}

/* Within 1e-6 of the exact one; that of torch in float32 is within 4e-7. */
INLINE vec gelu(vec x) { return 0.5f * x * (1.0f + erf_of(x * 0.70710678f)); }
