// The modules of this page, each a function that fills its exports when another one first asks.
const define = (() => {
  const makers = {}, made = {};
  globalThis.require = (name) => {
    // Vega 5.22 names one of its modules by its plural.
    const known = name === "vega-selections" ? "vega-selection" : name;
    if (!(known in made)) {
      if (!(known in makers)) throw new Error("no module " + name);
      const module = { exports: {} };
      made[known] = module;
      makers[known](module, module.exports, globalThis.require);
    }
    return made[known].exports;
  };
  return (name, maker) => { makers[name] = maker; };
})();
