// Builds elements from tags and texts; nothing from a file is ever parsed as HTML.
export const byId = (id) => document.getElementById(id);

const listed = (children) => children.flat(Infinity).filter((child) => child != null && child !== false && child !== "");

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...listed(children));
  return element;
}

export function select(id, options, value, choose, properties = {}) {
  const items = options.map(([name, text]) => make("option", { value: name, selected: name === value }, text));
  return make("select", { id, onchange: ({ target }) => choose(target.value), ...properties }, items);
}

const opened = new Set(); // ids of what is unfolded, which stays so when it is drawn again

// A part that is folded away until it is asked for, unless it is `open` from the start.
export function fold(id, title, open, ...children) {
  const part = make("details", { id, className: "fold", open: open || opened.has(id), ontoggle: () => opened[part.open ? "add" : "delete"](id) }, make("summary", {}, title), children);
  return part;
}

const drawn = new WeakMap();

// Rebuild a part only when what it shows has changed; the focused element keeps the focus.
export function refresh(element, key, build) {
  const text = JSON.stringify(key);
  if (drawn.get(element) === text) return;
  drawn.set(element, text);
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.replaceChildren(...listed([build()]));
  if (focused) byId(focused)?.focus({ preventScroll: true });
}

export const head = (number, text, words) => [make("h3", { id: `title-${number}`, tabIndex: -1 }, text), make("p", { className: "lead" }, words)];

export const next = (number, text, enabled = true) =>
  make("p", { className: "next" }, make("button", { id: `next-${number}`, className: "main", disabled: !enabled, onclick: () => dispatchEvent(new CustomEvent("step", { detail: number })) }, text));

export const bar = (share, label) => {
  const meter = make("progress", { max: 1, "aria-label": label });
  if (share != null) meter.value = share;
  return meter;
};

// What the page calls the options of a command that state how a file is written.
export const LABELS = {
  timezone: "Time zone", dates: "Dates", skip_rows: "Lines before the header", missing: "Missing codes",
  encoding: "Character encoding", sheet: "Sheet", stamp: "A time is", quantity: "Pollutant", deployment: "Conditions to come", reference_uncertainty: "Uncertainty of the reference",
};

// A message of a command, with the page's names of its options.
export const inPage = (text) => text.replace(/--([a-z-]+)/g, (option, name) => (name = LABELS[name.replaceAll("-", "_")]) ? `“${name}”` : option);

// Why a job failed; after an unexpected failure everything it printed.
export function refusal(job) {
  if (job?.state !== "refused") return null;
  const [first] = job.code === 1 ? job.messages.filter((text) => text.startsWith("This should not")) : [];
  return make("div", { className: "problem", role: "alert" }, inPage(first ?? job.messages.at(-1) ?? "This step failed without a message."), first && make("pre", { tabIndex: 0 }, job.messages.join("\n")));
}
