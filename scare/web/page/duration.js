// Durations in words.
const UNITS = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const [size, name] = UNITS.find(([size]) => seconds >= size) ?? UNITS.at(-1);
  const count = Number((seconds / size).toFixed(seconds / size < 10 && size > 1 ? 1 : 0));
  return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
}

export const day = (seconds) => new Date(seconds * 1e3).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
