"""Titles beside the right edge of a chart, in the place of a legend."""


def spread(heights, gap, top):
    """Rising heights, moved up or down until each is this far from the next and none above the top."""
    places = []
    for height in heights:
        places.append(max(height, places[-1] + gap) if places else height)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], top)
        top = places[i] - gap
    return places


def write_titles(axes, ends):
    """Beside the edge, with a line from each (x, y, title, colour). The axes' limits are set."""
    limits = axes.get_xlim(), axes.get_ylim()
    def places(points):  # as fractions of the axes
        return axes.transAxes.inverted().transform(axes.transData.transform(points))
    ends = sorted(zip(places([end[:2] for end in ends]), ends), key=lambda end: end[0][1])
    many = len(ends) > 13
    heights = spread([place[1] for place, _ in ends], 0.9 / len(ends) if many else 0.065, 1)
    for ((x, y), (_, _, title, colour)), height in zip(ends, heights):
        axes.plot([x, 1.02, 1.05], [y, height, height], color=colour, linewidth=0.6, clip_on=False, transform=axes.transAxes)
        axes.text(1.06, height, title, color=colour, fontsize=8 if many else 9.5, va="center", transform=axes.transAxes)
    axes.set(xlim=limits[0], ylim=limits[1])
