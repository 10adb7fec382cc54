"""Independent readers and writers: RADIUS by pyrad and scapy, PPPoE and PPP by scapy.

codecs.py radius|pppoe < lines of hexadecimal digits; for each line one JSON document.
"""

import hashlib
import io
import json
import logging
import sys

logging.disable(logging.CRITICAL)

from pyrad import dictionary, packet
from scapy.layers import radius as sr
from scapy.layers.l2 import Ether
from scapy.layers.ppp import *

SECRET = b"of both sides"
PASSWORD = "hello"
DICTIONARY = """
ATTRIBUTE User-Name 1 string
ATTRIBUTE User-Password 2 octets
ATTRIBUTE CHAP-Password 3 octets
ATTRIBUTE Framed-IP-Address 8 ipaddr
ATTRIBUTE Reply-Message 18 string
ATTRIBUTE Class 25 octets
ATTRIBUTE Session-Timeout 27 integer
ATTRIBUTE Calling-Station-Id 31 string
ATTRIBUTE NAS-Identifier 32 string
ATTRIBUTE Acct-Status-Type 40 integer
ATTRIBUTE Acct-Delay-Time 41 integer
ATTRIBUTE Acct-Session-Id 44 string
ATTRIBUTE CHAP-Challenge 60 octets
ATTRIBUTE NAS-Port-Id 87 string
VENDOR ADSL-Forum 3561
BEGIN-VENDOR ADSL-Forum
ATTRIBUTE ADSL-Agent-Circuit-Id 1 string
END-VENDOR ADSL-Forum
"""


def authenticator_is_right(read, zeroed):
    """Whether Message-Authenticator is that of the packet with this authenticator in its header."""
    # Making it sets the one of the packet to zeros.
    found = [bytes(one.value) for one in read.attributes if one.type == 80]
    made = sr.RadiusAttr_Message_Authenticator.compute_message_authenticator(read, zeroed, SECRET)
    return found == [made]


def radius(data):
    """Reads a request by both, and answers it by both."""
    known = dictionary.Dictionary(io.StringIO(DICTIONARY))
    read = sr.Radius(data)
    said = {"again": bytes(read.copy()) == data, "code": read.code}
    zeroed = bytes(16) if read.code == 4 else read.authenticator
    said["message_authenticator"] = authenticator_is_right(read, zeroed)
    if read.code == 4:
        request = packet.AcctPacket(packet=data, secret=SECRET, dict=known)
        said["authentic"] = request.VerifyAcctRequest()
    else:
        request = packet.AuthPacket(packet=data, secret=SECRET, dict=known)
        if "CHAP-Password" in request:
            # VerifyChapPasswd of pyrad 2.1 works with Python 2 alone.
            known, challenge = request["CHAP-Password"][0], request["CHAP-Challenge"][0]
            said["authentic"] = hashlib.md5(known[:1] + PASSWORD.encode() + challenge).digest() == known[1:]
        elif "User-Password" in request:
            said["authentic"] = request.PwDecrypt(request["User-Password"][0]) == PASSWORD
    texts = ["User-Name", "Acct-Session-Id", "NAS-Identifier", "NAS-Port-Id", "Calling-Station-Id", "ADSL-Agent-Circuit-Id"]
    numbers = ["Acct-Status-Type", "Acct-Delay-Time"]
    said["attributes"] = {name: request[name][0] for name in texts + numbers if name in request}
    reply = request.CreateReply()
    reply.code = 5 if read.code == 4 else 2
    if read.code != 4:
        reply["Framed-IP-Address"] = "100.64.0.9"
        reply["Class"] = b"abc"
        reply["Session-Timeout"] = 3600
    said["pyrad"] = reply.ReplyPacket().hex()
    said["scapy"] = scapy_reply(read).hex()
    return said


def scapy_reply(request):
    """An answer with Message-Authenticator in the middle."""
    code = 5 if request.code == 4 else 2
    attributes = [
        sr.RadiusAttr_Session_Timeout(value=3600),
        sr.RadiusAttr_Message_Authenticator(value=bytes(16)),
        sr.RadiusAttribute(type=25, value=b"abc"),
    ]
    reply = sr.Radius(code=code, id=request.id, authenticator=request.authenticator, attributes=attributes)
    # With its lengths.
    reply = sr.Radius(bytes(reply))
    made = sr.RadiusAttr_Message_Authenticator.compute_message_authenticator(reply, request.authenticator, SECRET)
    reply.attributes[1].value = made
    unsigned = bytes(reply)
    reply.authenticator = hashlib.md5(unsigned + SECRET).digest()
    return bytes(reply)


def fields_of(layer):
    """Values of a layer, without lengths, so that they are computed again."""
    return {name: value for name, value in layer.fields.items() if name not in ("len", "tag_len")}


def rebuilt(frame):
    """The frame, written again from what was read."""
    whole, layer = None, frame
    while layer and layer.name != "NoPayload":
        one = type(layer)(**fields_of(layer))
        whole = one if whole is None else whole / one
        layer = layer.payload
    return bytes(whole)


def pppoe(data):
    """Reads a frame, and writes it again."""
    frame = Ether(data)
    layers, layer = [], frame
    while layer and layer.name != "NoPayload":
        layers.append(layer.name)
        layer = layer.payload
    said = {"layers": layers, "again": rebuilt(frame) == data}
    if PPPoED in frame:
        said["code"] = frame[PPPoED].code
        said["tags"] = [tag.tag_type for tag in frame[PPPoED_Tags].tag_list] if PPPoED_Tags in frame else []
    elif PPP in frame:
        inner = frame[PPP].payload
        said["code"] = getattr(inner, "code", None)
        said["options"] = [option.type for option in getattr(inner, "options", [])]
    return said


def main():
    read = {"radius": radius, "pppoe": pppoe}[sys.argv[1]]
    for line in sys.stdin:
        print(json.dumps(read(bytes.fromhex(line.strip()))))


main()
