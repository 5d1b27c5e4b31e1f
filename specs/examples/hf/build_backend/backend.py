"""Builds the wheel of this project with nothing but the standard library: no index is asked for a build tool."""
import base64
import hashlib
import pathlib
import zipfile

NAME, VERSION = "tinylm", "1.0"
METADATA = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, files):
    info = f"{NAME}-{VERSION}.dist-info"
    files = {**files, f"{info}/METADATA": METADATA.encode(), f"{info}/WHEEL": WHEEL.encode()}
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    source = pathlib.Path("src")
    return write_wheel(wheel_directory, {str(p.relative_to(source)): p.read_bytes() for p in sorted(source.rglob("*.py"))})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {f"{NAME}.pth": f"{pathlib.Path('src').resolve()}\n".encode()})
