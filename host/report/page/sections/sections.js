// Owns the parts of the page in their order. A part is a module with {id, kind, title, lead, draw(body, files, tools)}; parts of a
// kind other than "measure" and null (every file) are there where a file of that kind is.
module.exports = [
  "section_overview", "section_layers", "section_spectrum", "section_experts",
  "section_compare", "section_experts_similarity", "section_cka", "section_routing",
  "section_activations",
  "section_table", "section_trust", "section_provenance",
].map(require);
