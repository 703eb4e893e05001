// Numbers and times as people read them.
export const figure = (value) => (value == null ? "–" : Math.abs(value) < 1e4 ? value.toPrecision(4) : number(value));
export const number = (value) => (value == null ? "–" : Number(value.toPrecision(4)).toLocaleString("en"));
export const moment = (seconds) => new Date(seconds * 1e3).toISOString().slice(0, 19).replace("T", " ");

export function age(seconds) {
  if (seconds < 1.5) return "now";
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = steps.find(([size]) => seconds >= size);
  return `${Math.floor(seconds / size)} ${unit}`;
}
