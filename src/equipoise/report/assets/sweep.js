"use strict";
// The page of a sweep: one line a method through its points, with intervals both ways.
(() => {
  const results = JSON.parse(document.getElementById("results").textContent);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const percent = (x) => (x === null ? null : 100 * x);
  const WHEEL = [205, 25, 75, 285, 340, 165, 48, 240, 110, 315]; // hues, in an order that keeps neighbours apart
  const MARKS = ["circle", "diamond", "square", "triangle-up", "cross", "star", "pentagon", "triangle-down", "hexagon", "x"];

  const series = Map.groupBy ? Map.groupBy(results.points, (point) => point.series) : grouped(results.points);
  function grouped(points) {
    const found = new Map();
    for (const point of points) found.set(point.series, [...(found.get(point.series) ?? []), point]);
    return found;
  }

  function bars(points, axis, colour) {
    const gap = (end) => points.map((p) => (p[axis][end] === null ? 0 : Math.abs(percent(p[axis][end] - p[axis].value))));
    return { type: "data", symmetric: false, array: gap("high"), arrayminus: gap("low"), color: colour, thickness: 0.8, width: 2 };
  }

  function draw() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
    const colour = (i) => (i ? `hsl(${WHEEL[(i - 1) % WHEEL.length]}, 60%, ${dark ? 68 : 36}%)` : style("--before"));
    const faint = (i) => (i ? `hsla(${WHEEL[(i - 1) % WHEEL.length]}, 60%, ${dark ? 68 : 36}%, 0.4)` : style("--line"));
    const traces = [...series].map(([name, points], i) => ({
      name, x: points.map((p) => percent(p.fairness.value)), y: points.map((p) => percent(p.utility.value)),
      mode: points.length > 1 ? "lines+markers" : "markers", line: { color: colour(i), width: 1.5 },
      marker: {
        size: points.map((p) => (p.default || points.length === 1 ? 11 : 8)), symbol: points.map((p) => MARKS[i % MARKS.length] + (p.front ? "" : "-open")),
        color: colour(i),
      },
      error_x: bars(points, "fairness", faint(i)), error_y: bars(points, "utility", faint(i)),
      text: points.map((p) => (p.param ? `${p.param} ${p.value}` : "")),
      hovertemplate: `%{text}<br>${results.fairness.metric} %{x:.1f}, ${results.utility.metric} %{y:.1f}<extra>%{fullData.name}</extra>`,
    }));
    const floor = results.fairness.floor === null || results.fairness.floor === undefined ? [] : [{
      type: "line", yref: "paper", y0: 0, y1: 1, x0: percent(results.fairness.floor), x1: percent(results.fairness.floor),
      line: { color: style("--soft"), dash: "dot", width: 1.5 },
    }];
    const axis = (title) => ({ title: { text: title, standoff: 8 }, gridcolor: style("--line"), zerolinecolor: style("--line"), automargin: true });
    Plotly.react("sweep", traces, {
      height: 560, shapes: floor, showlegend: true, legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
      font: { family: "system-ui, sans-serif", size: 12, color: style("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 8, t: 8, b: 40 }, hoverlabel: { bgcolor: style("--wash"), font: { color: style("--ink") } },
      xaxis: axis(`${results.fairness.metric}, percent`), yaxis: axis(`${results.utility.metric}, percent`),
    }, { displayModeBar: false, responsive: true });
  }
  draw();
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
})();
