/* SPDX-License-Identifier: Apache-2.0 */
/* world_math.c - see world_math.h.
 *
 * The logarithm is found bit by bit: squaring the mantissa doubles its logarithm, and whether it passes 2 is the next
 * bit. The power goes the other way: one factor 2^(2^-k) for each bit that is set.
 */
#include "sim/world/world_math.h"

#include <assert.h>

/* 2^(2^-k), k = 1..32, as Q1.63, rounded to nearest. */
static const uint64_t roots[32] = {
    0xb504f333f9de6484ULL, 0x9837f0518db8a96fULL, 0x8b95c1e3ea8bd6e7ULL, 0x85aac367cc487b15ULL, 0x82cd8698ac2ba1d7ULL,
    0x8164d1f3bc030773ULL, 0x80b1ed4fd999ab6cULL, 0x8058d7d2d5e5f6b1ULL, 0x802c6436d0e04f51ULL, 0x8016302f17467628ULL,
    0x800b179c82028fd1ULL, 0x80058baf7fee3b5dULL, 0x8002c5d00fdcfcb7ULL, 0x800162e61bed4a49ULL, 0x8000b17292f702a4ULL,
    0x800058b92abbae02ULL, 0x80002c5c8dade4d7ULL, 0x8000162e44eaf636ULL, 0x80000b1721fa7c19ULL, 0x8000058b90de7e4dULL,
    0x800002c5c8678f37ULL, 0x80000162e431dba0ULL, 0x800000b1721872d1ULL, 0x80000058b90c1aa9ULL, 0x8000002c5c8605a4ULL,
    0x800000162e4300e6ULL, 0x8000000b17217ff8ULL, 0x800000058b90bfddULL, 0x80000002c5c85fe7ULL, 0x8000000162e42ff2ULL,
    0x80000000b17217f8ULL, 0x8000000058b90bfcULL,
};

/* Two numbers in Q1.63. */
static uint64_t mul(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b) >> 63);
}

int64_t math_log2(uint64_t x)
{
    int whole, i;
    uint64_t m;
    int64_t bits = 0;

    assert(x > 0);
    whole = 63 - __builtin_clzll(x);
    m = x << (63 - whole);
    for (i = 0; i < 32; i++) {
        unsigned __int128 square = (unsigned __int128)m * m;

        bits <<= 1;
        if (square >> 127) {
            bits |= 1;
            m = (uint64_t)(square >> 64);
        } else {
            m = (uint64_t)(square >> 63);
        }
    }
    return ((int64_t)whole << 32) + bits;
}

int64_t math_exp2(int64_t scale, int64_t power)
{
    int64_t whole = power >> 32;
    uint32_t part = (uint32_t)power;
    uint64_t m = (uint64_t)1 << 63;
    unsigned __int128 product;

    assert(scale >= 0);
    for (int i = 0; part; i++, part <<= 1) {
        if (part >> 31)
            m = mul(m, roots[i]);
    }
    product = (unsigned __int128)(uint64_t)scale * m;
    if (whole >= 63)
        return scale ? INT64_MAX : 0;
    if (whole < -63)
        return 0;
    product >>= 63 - whole > 127 ? 127 : 63 - whole;
    return product > INT64_MAX ? INT64_MAX : (int64_t)product;
}

int64_t math_exponential(struct rng *rng, int64_t mean)
{
    static const uint64_t ln2 = 2977044472; /* Q32 */
    uint64_t u = rng_next(rng) | 1;
    uint64_t bits = (uint64_t)(64 * Q32_ONE - math_log2(u)); /* -log2(u / 2^64) */
    unsigned __int128 x = ((unsigned __int128)(uint64_t)mean * bits) >> 32;

    x = (x * ln2) >> 32;
    if (x > INT64_MAX)
        return INT64_MAX;
    return x ? (int64_t)x : 1;
}

struct rng math_stream(uint64_t seed, uint64_t purpose, uint64_t index)
{
    struct rng rng;

    rng_seed(&rng, rng_mix(rng_mix(seed + 0x9e3779b97f4a7c15ULL) ^ rng_mix(purpose * 0xd1342543de82ef95ULL + 1)) ^
                       rng_mix(index + 0x2545f4914f6cdd1dULL));
    return rng;
}
