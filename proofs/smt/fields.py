"""The fields of a word without a key: `src/word.rs`, `[time | counts]`, over bit vectors, for every width of the counts.

The windows' proofs take a word as the pair of its fields. This is right because of what is proved here."""

from z3 import ULE, ULT, BitVec, BitVecVal, LShR

from prover import Claim, prove

word, time, counts, bits = (BitVec(name, 64) for name in ("word", "time", "counts", "count_bits"))
ONE = BitVecVal(1, 64)
WIDTH = [ULT(bits, 64)]


def unpacked(word):
    return LShR(word, bits), word & ((ONE << bits) - 1)


def packed(time, counts):
    return (time << bits) | counts


def every_word_is_a_pair(fault):
    told_time, told_counts = unpacked(word)
    if fault:
        told_counts = word & (ONE << bits)
    return Claim(WIDTH, [packed(told_time, told_counts) == word, ULE(told_counts, (ONE << bits) - 1)],
                 {"word": word, "count_bits": bits})


def every_pair_is_a_word(fault):
    fits = [ULE(counts, (ONE << bits) - 1), LShR(time << bits, bits) == time]
    if fault == "a count of one bit more":
        fits[0] = ULE(counts, (ONE << bits) * 2 - 1)
    if fault == "a time of one bit more":
        fits.pop()
    told_time, told_counts = unpacked(packed(time, counts))
    return Claim(WIDTH + fits, [told_time == time, told_counts == counts],
                 {"time": time, "counts": counts, "count_bits": bits})


def main():
    return all([
        prove("word", "every word is a pair of fields", "all words, widths", every_word_is_a_pair, ["a wrong mask"]),
        prove("word", "a pair that fits is read back", "all pairs, widths", every_pair_is_a_word,
              ["a count of one bit more", "a time of one bit more"]),
    ])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
