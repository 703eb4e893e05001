// Requests to the server: each carries the key that the link was exchanged for.
const KEY = "scare-key";

export class Refusal extends Error {}

export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("v1/enter", { method: "POST", body: JSON.stringify({ token }) });
  const reply = await answer.json();
  if (answer.ok) sessionStorage.setItem(KEY, reply.key);
  else if (!sessionStorage.getItem(KEY)) throw new Refusal(reply.error);
}

const headers = () => ({ authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` });

export async function ask(path, method = "GET", body = undefined) {
  const answer = await fetch(`v1/${path}`, { method, headers: headers(), body: body && JSON.stringify(body) });
  const reply = await answer.json();
  if (answer.status === 401) dispatchEvent(new CustomEvent("lost", { detail: reply.error }));
  if (!answer.ok) throw new Refusal(reply.error);
  return reply;
}

export function upload(path, file, progress) {
  return new Promise((done, refuse) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `v1/${path}`);
    request.setRequestHeader("authorization", headers().authorization);
    request.upload.onprogress = ({ loaded, total }) => progress(loaded / total);
    request.onload = () => {
      const reply = JSON.parse(request.responseText);
      if (request.status === 200) done(reply);
      else refuse(new Refusal(reply.error));
    };
    request.onerror = () => refuse(new Refusal("The file did not arrive. Is scare open still running? Is the disk full?"));
    request.send(file);
  });
}

export async function* events(path, signal) {
  const answer = await fetch(`v1/${path}`, { headers: headers(), signal });
  if (answer.status === 401) dispatchEvent(new CustomEvent("lost", { detail: (await answer.json()).error }));
  if (!answer.ok) throw new Refusal("scare open does not answer.");
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
