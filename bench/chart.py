"""SVG charts of numbers over time or steps, for the benchmarks."""

WIDTH, HEIGHT, LEFT, TOP = 720, 170, 50, 30
COLORS = ("#1f5fa8", "#d07a1f", "#2a8a3a", "#8a2a7a")


class Chart:
    """lines: {name: [(x, y), ...]}; events: [(x, name)], dashed; dots: [x], on the axis; a tick is
    labelled with its x and the unit.
    """

    def __init__(self, title, lines, *, events=(), dots=(), tick=10, unit=""):
        self.title, self.lines = title, lines
        self.events, self.dots, self.tick, self.unit = events, dots, tick, unit
        points = [point for line in lines.values() for point in line]
        self.first = min(x for x, _ in points)
        self.width = max(x for x, _ in points) - self.first or 1
        self.most = max(y for _, y in points) * 1.1 or 1

    def svg(self, top):
        """The elements of the chart, whose upper end is at `top`."""

        def x(moment):
            return LEFT + (WIDTH - LEFT - 10) * (moment - self.first) / self.width

        def y(value):
            return top + TOP + (HEIGHT - TOP - 30) * (1 - value / self.most)

        def text(left, height, content, anchor="start", color="black"):
            return (
                f'<text x="{left:.1f}" y="{height:.1f}" text-anchor="{anchor}" '
                f'fill="{color}">{content}</text>'
            )

        for index, ((name, line), color) in enumerate(zip(self.lines.items(), COLORS)):
            points = " ".join(f"{x(moment):.1f},{y(value):.1f}" for moment, value in line)
            yield f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{points}"/>'
            if name:
                yield text(WIDTH - 10 - 120 * index, top + 14, name, "end", color)
        yield (
            f'<path stroke="#888" fill="none" d="M{LEFT} {y(self.most):.1f}V{y(0):.1f}'
            f'H{WIDTH - 10}"/>'
        )
        yield text(LEFT, top + 14, self.title)
        for share in (0, 0.5, 1):
            label = f"{share * self.most:.1f}"
            yield text(LEFT - 4, y(share * self.most) + 4, label, "end")
        last = int(self.first + self.width)
        for moment in range(-(-int(self.first) // self.tick) * self.tick, last + 1, self.tick):
            yield text(x(moment), y(0) + 16, f"{moment}{self.unit}", "middle")
        for moment, name in self.events:
            yield (
                f'<path stroke="#c33" stroke-dasharray="4 3" d="M{x(moment):.1f} '
                f'{y(self.most):.1f}V{y(0):.1f}"/>'
            )
            yield text(x(moment) + 3, y(self.most) + 8, name)
        for moment in self.dots:
            yield f'<circle r="4" fill="#2a2" cx="{x(moment):.1f}" cy="{y(0):.1f}"/>'


def write(path, charts):
    """One file with the charts among each other."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{HEIGHT * len(charts)}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, chart in enumerate(charts):
        lines += chart.svg(index * HEIGHT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, "</svg>", ""]))
