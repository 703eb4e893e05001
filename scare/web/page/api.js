// What the page asks of its server: every request carries the key that the link gave, once.
const KEY = "scare-key";

export class Refusal extends Error {}

export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("v1/enter", { method: "POST", body: JSON.stringify({ token }) });
  const told = await answer.json();
  if (answer.ok) sessionStorage.setItem(KEY, told.key);
  else if (!sessionStorage.getItem(KEY)) throw new Refusal(told.error);
}

const headers = () => ({ authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` });

export async function ask(path, method = "GET", body = undefined) {
  const answer = await fetch(`v1/${path}`, { method, headers: headers(), body: body && JSON.stringify(body) });
  const told = await answer.json();
  if (answer.status === 401) dispatchEvent(new CustomEvent("lost", { detail: told.error }));
  if (!answer.ok) throw new Refusal(told.error);
  return told;
}

export function upload(path, file, progress) {
  return new Promise((done, refuse) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `v1/${path}`);
    request.setRequestHeader("authorization", headers().authorization);
    request.upload.onprogress = ({ loaded, total }) => progress(loaded / total);
    request.onload = () => {
      const told = JSON.parse(request.responseText);
      if (request.status === 200) done(told);
      else refuse(new Refusal(told.error));
    };
    request.onerror = () => refuse(new Refusal("the file did not arrive; is scare open still running, and is the disk full?"));
    request.send(file);
  });
}

export async function* events(path, signal) {
  const answer = await fetch(`v1/${path}`, { headers: headers(), signal });
  if (answer.status === 401) dispatchEvent(new CustomEvent("lost", { detail: (await answer.json()).error }));
  if (!answer.ok) throw new Refusal("no events");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (pending + value).split("\n\n");
    pending = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

export async function download(session, file) {
  const { address } = await ask(`sessions/${session}/tickets`, "POST", { file });
  const link = document.createElement("a");
  link.href = address;
  link.download = "";
  link.click();
}
