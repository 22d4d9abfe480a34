"""AWS KMS on loopback: JSON 1.1 over HTTP, with keys, encryption contexts and signed requests."""

from __future__ import annotations

import base64
import json
import re

from answering import Answer, Answering, Asked, told
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.system import clock

ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
OTHER_ARN = ARN.replace("1234abcd", "99999999")
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIA[A-Z0-9]+/\d{8}/eu-west-1/kms/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}"
)


class _KmsError(Exception):
    pass


class MadeKms:
    def __init__(self) -> None:
        self.keys = {arn: AESGCM(clock.random_bytes(32)) for arn in (ARN, OTHER_ARN)}
        self.denied = False
        self.down = False
        self.contexts: list[dict[str, str]] = []

    def answer(self, asked: Asked) -> Answer:
        if self.down:
            return Answer(status=503)
        try:
            return told(self._answer(asked))
        except _KmsError as error:
            return told({"__type": error.args[0], "message": error.args[1]}, 400)

    def _answer(self, asked: Asked) -> dict[str, str]:
        operation = asked.headers["x-amz-target"].removeprefix("TrentService.")
        assert asked.headers["content-type"] == "application/x-amz-json-1.1"
        if _SIGNED.fullmatch(asked.headers.get("authorization", "")) is None:
            raise _KmsError("IncompleteSignatureException", "not signed")
        if self.denied:
            raise _KmsError("AccessDeniedException", f"not authorized to perform: kms:{operation}")
        request = json.loads(asked.body)
        arn, context = request["KeyId"], json.dumps(request["EncryptionContext"]).encode()
        if arn not in self.keys:
            raise _KmsError("NotFoundException", f"Key '{arn}' does not exist")
        self.contexts.append(request["EncryptionContext"])
        if operation == "Encrypt":
            nonce, plain = clock.random_bytes(12), base64.b64decode(request["Plaintext"])
            blob = arn.encode() + b"|" + nonce + self.keys[arn].encrypt(nonce, plain, context)
            return {"CiphertextBlob": base64.b64encode(blob).decode(), "KeyId": arn}
        assert operation == "Decrypt"
        encrypted_by, _, blob = base64.b64decode(request["CiphertextBlob"]).partition(b"|")
        if encrypted_by.decode() != arn:
            raise _KmsError("IncorrectKeyException", "The key ID in the request does not identify a CMK")
        try:
            plain = self.keys[arn].decrypt(blob[:12], blob[12:], context)
        except InvalidTag:
            raise _KmsError("InvalidCiphertextException", "") from None
        return {"Plaintext": base64.b64encode(plain).decode(), "KeyId": arn}


def kms_variables(server: Answering, arn: str = ARN) -> dict[str, str | None]:
    return {
        "HOLDFAST_KEY": f"awskms:{arn}",
        "AWS_ENDPOINT_URL_KMS": server.url,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "hunter2-of-aws",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
