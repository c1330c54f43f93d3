// Owns reading the page's data: the documents in its script elements, packed lists of numbers (page_values.hpp says how
// they are made), and the lists of texts and names.
const kInteger = -2147483648;

const text = (id) => {
  const element = document.getElementById(id);
  return element === null ? null : element.textContent;
};

/** The document `block` of file `index`, or null. */
exports.block = (index, block) => {
  const found = text(`data-${index}-${block}`);
  return found === null ? null : JSON.parse(found);
};

exports.hasBlock = (index, block) => document.getElementById(`data-${index}-${block}`) !== null;

/** `main` of every file, in order. */
exports.files = () => {
  const files = [];
  for (let index = 0; ; ++index) {
    const main = exports.block(index, "main");
    if (main === null) return files;
    files.push({ index, ...main });
  }
};

const types = { f32: Float32Array, i32: Int32Array, u16: Uint16Array };

/** A list of numbers as a typed array: Float64Array of a plain list, else of the type it was packed as. */
exports.numbers = async (list) => {
  if (Array.isArray(list)) return Float64Array.from(list, (value) => (value === null ? NaN : value));
  const packed = Uint8Array.from(atob(list.z), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const Type = types[list.t], size = Type.BYTES_PER_ELEMENT, bytes = new Uint8Array(list.n * size);
  if (planes.length !== bytes.length) throw new Error("a packed list of another length");
  for (let plane = 0; plane < size; ++plane) {
    for (let i = 0, from = plane * list.n; i < list.n; ++i) bytes[i * size + plane] = planes[from + i];
  }
  return new Type(bytes.buffer);
};

/** The same for integers of which some may be missing: these are NaN. */
exports.integers = async (list) => {
  const values = await exports.numbers(list);
  return values instanceof Int32Array && values.includes(kInteger)
    ? Float64Array.from(values, (value) => (value === kInteger ? NaN : value)) : values;
};

/** {texts, at}: texts[at[i]] is that of row i. */
exports.texts = async (list) => ({ texts: list.texts, at: await exports.numbers(list.at) });

/** A function that gives the name of row i. */
exports.names = async (list, layer, expert) => {
  const { texts, at } = await exports.texts(list);
  return (i) => texts[at[i]].replace("\u0001", String(layer[i])).replace("\u0002", String(expert[i]));
};
