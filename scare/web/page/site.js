// In step 4: the facts of the deployment that an agency asks for.
import { fold, make } from "./dom.js";

const TYPES = { number: { type: "number", step: "any" }, date: { type: "date" }, list: { type: "text" }, text: { type: "text" } };

export function siteForm(page, facts) {
  const { selections } = page.state.setup;
  const field = (id, label, hint, input) => make("div", { className: "field" }, make("label", { htmlFor: id }, label), input, hint && make("small", {}, hint));
  const inputs = facts.facts.map(({ name, label, kind }) => field(`fact-${name}`, label, kind === "list" && "names of files, with commas",
    make("input", { id: `fact-${name}`, ...TYPES[kind], value: shown(selections.facts[name]), onchange: ({ target }) => page.select({ facts: { [name]: read(target.value, kind) } }) })));
  const uncertainty = field("reference-uncertainty", "Uncertainty of the reference, u(bs,RM)", "A number in the unit of the reference, or an analyser: 42i, T200, 49i, BAM, Fidas 200 …",
    make("input", { id: "reference-uncertainty", type: "text", value: selections.reference_uncertainty, onchange: ({ target }) => page.select({ reference_uncertainty: target.value.trim() }) }));
  return fold("site", "Facts of the deployment, for the report", false, make("div", { className: "fields" }, inputs, uncertainty));
}

const shown = (value) => (Array.isArray(value) ? value.join(", ") : value ?? "");

function read(text, kind) {
  if (kind === "number") return text === "" ? null : Number(text);
  if (kind === "date") return text || null;
  return kind === "list" ? text.split(",").map((name) => name.trim()).filter(Boolean) : text.trim();
}
