"""Called by function.yaml."""


def describe(numbers, scale=1.0):
    ordered = sorted(scale * n for n in numbers)
    return {"count": len(ordered), "mean": sum(ordered) / len(ordered), "min": ordered[0], "max": ordered[-1]}
