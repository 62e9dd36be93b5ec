// Draws a Vega-Lite template once; other data and signals then go into the drawing as it stands.
// It is bundled with vegaEmbed by vl-convert, so it imports nothing.
async function render({ model, el }) {
    let drawn = null; // {template, embedded}
    let under_way = null;
    let waiting = false;

    async function embed(template, { data, signals }) {
        const named = Object.entries(signals).map(([name, value]) => ({ name, value }));
        const spec = structuredClone({
            ...template,
            datasets: data,
            params: [...(template.params ?? []), ...named],
        });
        drawn?.embedded.finalize();
        drawn = null;
        const options = { actions: false, renderer: "svg" };
        drawn = { template, embedded: await vegaEmbed(el, spec, options) };
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
            else await embed(template, values);
        } catch (error) {
            drawn = null;
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
