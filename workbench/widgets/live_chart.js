// Draws a Vega-Lite template once; other data and signals then go into the drawing as it stands.
// It is bundled with vegaEmbed by vl-convert, so it imports nothing.
const KEPT = 8; // drawings that are at hand again, as when a slider comes back

async function render({ model, el }) {
    const kept = new Map(); // by template, as text: the latest drawings, this one last
    let drawn = null; // {template, embedded, place}
    let under_way = null;
    let waiting = false;

    async function embed(template, { data, signals }) {
        const named = Object.entries(signals).map(([name, value]) => ({ name, value }));
        const spec = structuredClone({
            ...template,
            datasets: data,
            params: [...(template.params ?? []), ...named],
        });
        const place = document.createElement("div");
        const options = { actions: false, renderer: "svg" };
        return { template, place, embedded: await vegaEmbed(place, spec, options) };
    }

    async function other(template, values) {
        const key = JSON.stringify(template);
        const found = kept.get(key);
        drawn = found ? { ...found, template } : await embed(template, values);
        if (found) await change(values);
        el.replaceChildren(drawn.place);
        kept.delete(key);
        kept.set(key, drawn);
        for (const [oldest, { embedded }] of [...kept].slice(0, -KEPT)) {
            embedded.finalize();
            kept.delete(oldest);
        }
    }

    async function change({ data, signals }) {
        const view = drawn.embedded.view;
        for (const [name, rows] of Object.entries(data)) view.data(name, structuredClone(rows));
        for (const [name, value] of Object.entries(signals)) view.signal(name, value);
        await view.resize().runAsync();
    }

    async function update() {
        const template = model.get("template");
        const values = model.get("values");
        if (template == null) return;
        try {
            if (drawn?.template === template) await change(values);
            else await other(template, values);
        } catch (error) {
            drawn = null;
            kept.clear();
            el.textContent = `The chart cannot be drawn: ${error.message}`;
            throw error;
        }
    }

    // While one is drawn, further ones wait, and of these only the latest is drawn.
    function follow() {
        if (under_way !== null) {
            waiting = true;
            return under_way;
        }
        waiting = false;
        under_way = update().finally(() => {
            under_way = null;
            if (waiting) follow();
        });
        return under_way;
    }

    model.on("change:values", follow);
    await follow();
}

export default { render };
