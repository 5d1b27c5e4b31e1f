"""The fixture `clouds`."""
import pytest

from . import Clouds, moto


def pytest_sessionfinish(session):
    moto.stop()


@pytest.fixture
def clouds(box, request):
    """clouds.start("hetzner"): a provider to rent from; see the package."""
    all_of_it = Clouds(box)
    yield all_of_it
    violations = all_of_it.end()
    if violations and not getattr(request.node, "failed", False):
        pytest.fail("what the providers do not know was asked of them:\n" + "\n".join(violations))
