// Draws Vega-Lite templates, each once; other data and signals then go into a drawing as it stands.
// It is bundled with vegaEmbed by vl-convert, so it imports nothing.
const KEPT = 8; // drawings that are at hand again, as when a slider comes back

// Returns show(template, values), whose promise is Vega's view, and prepare(template, values), of a
// drawing to be shown later.
function drawings(el, most = KEPT) {
    const kept = new Map(); // by template, as text: the latest drawings, this one last
    let drawn = null; // {template, embedded, place}
    let wanted = null;
    let under_way = null;

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

    function keep(key, drawing) {
        kept.delete(key);
        kept.set(key, drawing);
        for (const [oldest, { embedded }] of [...kept].slice(0, -most)) {
            embedded.finalize();
            kept.delete(oldest);
        }
    }

    async function other(template, values) {
        const key = JSON.stringify(template);
        const found = kept.get(key);
        drawn = found ? { ...found, template } : await embed(template, values);
        if (found) await change(values);
        el.replaceChildren(drawn.place);
        keep(key, drawn);
    }

    async function change({ data, signals }) {
        const view = drawn.embedded.view;
        for (const [name, rows] of Object.entries(data)) view.data(name, structuredClone(rows));
        for (const [name, value] of Object.entries(signals)) view.signal(name, value);
        await view.resize().runAsync();
    }

    async function follow() {
        try {
            while (wanted !== null) {
                const { template, values } = wanted;
                wanted = null;
                if (drawn?.template === template) await change(values);
                else await other(template, values);
            }
            return drawn.embedded.view;
        } catch (error) {
            drawn = wanted = null;
            kept.clear();
            el.textContent = `The chart cannot be drawn: ${error.message}`;
            throw error;
        } finally {
            under_way = null;
        }
    }

    return {
        // While one is drawn, further ones wait, and of these only the latest is drawn.
        show(template, values) {
            wanted = { template, values };
            under_way ??= follow();
            return under_way;
        },
        async prepare(template, values) {
            const key = JSON.stringify(template);
            if (under_way !== null || kept.has(key)) return;
            const made = await embed(template, values);
            if (kept.has(key)) return made.embedded.finalize();
            keep(key, made);
            const [shown] = [...kept].filter(([, { place }]) => place === drawn?.place);
            if (shown) keep(...shown); // last again, so that it is not the next to go
        },
    };
}

async function render({ model, el }) {
    const { show } = drawings(el);
    const follow = () => {
        const template = model.get("template");
        return template == null ? null : show(template, model.get("values"));
    };
    model.on("change:values", follow);
    await follow();
}

export default { render };
