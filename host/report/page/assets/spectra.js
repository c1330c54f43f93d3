// Owns reading the spectra of a file of `vindex measure` (page_spectra.hpp says how they are stored).
const data = require("data");

const read = new Map();
/** The spectra of file `index`, read when first asked for. */
exports.of = (index) => {
  if (!read.has(index)) read.set(index, unpack(data.block(index, "spectra")));
  return read.get(index);
};

const unpack = async (block) => {
  const places = new Map();
  const groups = await Promise.all(block.groups.map(async (group, g) => {
    const [matrix, first, codes] = await Promise.all([group.matrix, group.first, group.codes].map(data.numbers));
    const count = matrix.length, ranks = group.ranks.length;
    // Each rank holds the difference to the rank before, modulo 2^16.
    const steps = new Uint16Array(codes.length);
    for (let i = 0; i < codes.length; ++i) steps[i] = codes[i] + (i >= count ? steps[i - count] : 0);
    matrix.forEach((row, i) => places.set(row, [g, i]));
    return { ranks: group.ranks, length: group.length, count, first, steps, rankCount: ranks };
  }));
  const laws = await Promise.all(block.laws.map(async (law) => law && {
    ...law, x: [...await data.numbers(law.x)], density: [...await data.numbers(law.density)], sigma: [...await data.numbers(law.sigma)],
  }));
  return {
    laws, steps: block.steps,
    /** {ranks, sigma, length} of a row of /matrix/: values at these ranks of `length` stored ones; null where there is none. */
    at(row) {
      const place = places.get(row);
      if (place === undefined) return null;
      const [g, i] = place, { ranks, length, count, first, steps } = groups[g];
      return { ranks, length, sigma: ranks.map((unused, r) => {
        const code = steps[r * count + i];
        return code === 65535 ? 0 : first[i] * Math.exp(-code / block.steps);
      }) };
    },
  };
};
