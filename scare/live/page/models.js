// The models in use, and the upload of a new one if the gateway takes any.
const byId = (id) => document.getElementById(id);

async function show() {
  const answer = await fetch("v1/models");
  const { models, uploads } = await answer.json();
  const lines = models.map(({ model, product }) => Object.assign(document.createElement("li"), { textContent: `${model}: ${product}` }));
  byId("models").querySelector("ul").replaceChildren(...lines);
  byId("upload").hidden = !uploads;
}

async function upload(file) {
  const answer = await fetch(`v1/models/${encodeURIComponent(file.name)}`, { method: "PUT", body: file });
  const { outcome, error } = await answer.json();
  byId("outcome").textContent = outcome ?? error;
  await show();
}

export function openModels() {
  byId("models").addEventListener("toggle", show);
  byId("upload").addEventListener("change", ({ target }) => {
    if (target.files.length) upload(target.files[0]);
    target.value = "";
  });
}
