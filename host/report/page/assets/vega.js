// Owns the part of Vega that charts here need: parsing a specification, and a view whose expressions are interpreted, so that
// nothing is compiled while the page runs (its policy forbids that).
const { transforms } = require("vega-dataflow");
Object.assign(transforms, require("vega-transforms"), require("vega-view-transforms"), require("vega-encode"), require("vega-label"));
const { parse } = require("vega-parser");
const { View } = require("vega-view");
const { expressionInterpreter } = require("vega-interpreter");

exports.view = (specification, configuration, options) =>
  new View(parse(specification, configuration, { ast: true }), { expr: expressionInterpreter, renderer: "svg", ...options });
exports.format = require("vega-format");
