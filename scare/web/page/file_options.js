// How a file is written: what was found, and what a person can state instead.
import { LABELS, fold, make, select } from "./dom.js";

const DATES = [["", "as found"], ["day-first", "day first: 3/4 is 3 April"], ["month-first", "month first: 3/4 is 4 March"]];
const STAMPS = [["", "as found"], ["begin", "the beginning of the average"], ["end", "the end of the average"]];
const SHEET = /\.(xlsx|xls|ods)$/;
// `refused` shows the settings at once: one of them probably helps.
export function written(name, kind, refused, page, facts) {
  const { selections } = page.state.setup, stated = selections.tables[name] ?? {};
  const state = (key, value) => page.select({ tables: { [name]: { [key]: value } } });
  const field = (key, hint, control) => make("div", { className: "field" }, make("label", { htmlFor: `${key}-${name}` }, LABELS[key]), control, make("small", {}, hint));
  const text = (key, placeholder, more = {}) => make("input", { id: `${key}-${name}`, value: stated[key] ?? "", placeholder, autocomplete: "off", spellcheck: false, onchange: ({ target }) => state(key, target.value.trim()), ...more });
  const encodings = [["", "as found"], ...Object.entries(facts.encodings)];
  const quantities = [["", "as found"], ...facts.quantities.map((one) => [one, one])];
  const codes = (words) => words.split(/[\s,;]+/).filter(Boolean);
  return fold(`written-${name}`, "How this file is written", refused,
    make("div", { className: "fields" },
      field("timezone", "Of times that state none. Type a city or a region.", text("timezone", "as found, otherwise UTC", { list: "zones", type: "search", onchange: ({ target }) => state("timezone", findZone(target.value.trim(), facts)) })),
      field("dates", "", select(`dates-${name}`, DATES, stated.dates ?? "", (value) => state("dates", value))),
      field("skip_rows", "", text("skip_rows", "as found", { type: "number", min: 0, step: 1, value: stated.skip_rows ?? "", onchange: ({ target }) => state("skip_rows", target.value === "" ? null : Number(target.value)) })),
      field("missing", "Cells that mean “no reading”, such as -999, separated by spaces.", text("missing", "as found", { value: (stated.missing ?? []).join(" "), onchange: ({ target }) => state("missing", codes(target.value)) })),
      field("encoding", "", select(`encoding-${name}`, encodings, stated.encoding ?? "", (value) => state("encoding", value))),
      SHEET.test(name) && field("sheet", "", text("sheet", "the first with a table")),
      kind === "reference" && field("stamp", "", select(`stamp-${name}`, STAMPS, selections.stamp, (value) => page.select({ stamp: value }))),
      kind === "reference" && field("quantity", "If the name of the column does not say it.", select(`quantity-${name}`, quantities, selections.quantity, (value) => page.select({ quantity: value })))));
}

// A city alone is enough.
function findZone(text, facts) {
  const city = text.toLowerCase().replaceAll(" ", "_");
  return facts.zones.find((zone) => zone.toLowerCase() === city || zone.toLowerCase().endsWith(`/${city}`)) ?? text;
}

export const zones = (facts) => make("datalist", { id: "zones" }, facts.zones.map((zone) => make("option", { value: zone }, zone.split("/").at(-1).replaceAll("_", " "))));
