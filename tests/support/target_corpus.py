"""Hostile and harmless targets: each hostile one must be refused by what the URL alone tells."""

# ruff: noqa: RUF001 - characters that look like others are the attack

# Addresses that must never be reached without an allow-list, whichever way they are written.
_ADDRESSES = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1
127.1.2.3 127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 169.254.170.23
172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.0.192 192.0.2.1 192.88.99.1
192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1
239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::2 ::127.0.0.1 ::7f00:1 ::10.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1
::ffff:100.64.0.1 ::ffff:169.254.169.254 ::ffff:7f00:1 ::ffff:168.63.129.16 ::ffff:0:127.0.0.1
::ffff:0.0.0.0 ::ffff:224.0.0.1 0:0:0:0:0:ffff:7f00:0001
64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b::a00:1 64:ff9b::a9fe:a9fe
64:ff9b::168.63.129.16 64:ff9b:1::1 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::10.0.0.1 64:ff9b::1:0:0
100::1 100:0:0:1::1
2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:7f00:1:0:0:8b5c:6d7a 2001:2::1 2001:10::1
2001:20::1 2001:1::1 2001:db8::1 2001:db8:ffff::1
2002::1 2002:7f00:1::1 2002:a00:1::1 2002:a9fe:a9fe::1 2002:c0a8:101:: 2002:808:808::1
2600:1f18::5efe:7f00:1 2600:1f18::5efe:10.0.0.1 2600:1f18::200:5efe:192.168.0.1
3fff::1 5f00::1 4000::1 8000::1 e000::1 fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fdff:ffff::1
fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 feff::1 ff02::1 ff0e::1 ff05::1:3
"""
ADDRESSES = [*_ADDRESSES.split()]

# Texts that are refused whatever they stand for: two readers could read two hosts.
MALFORMED = [
    "",
    " ",
    "/",
    "//example.com/",
    "example.com",
    "https:",
    "https:/example.com/",
    "https:example.com",
    "https:///example.com/",
    "https://",
    "https://:443/",
    "https://?x",
    "ftp://example.com/",
    "file" + ":///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "unix:///var/run/docker.sock",
    "javascript:alert(1)",
    "ws://example.com/",
    "dict://example.com:11211/",
    "http+unix://%2Fvar%2Frun/",
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://example.com@127.0.0.1/",
    "https://@example.com/",
    "https://example.com/#fragment",
    "https://127.0.0.1#@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https:\\\\127.0.0.1\\",
    "https://exa mple.com/",
    " https://example.com/",
    "https://example.com/ ",
    "https://example.com/a b",
    "https://example.com/\r\nHost: internal",
    "https://example.com/\x00",
    "https://example.com\t/",
    "https://exam\nple.com/",
    "https://example.com/käse",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:99999/",
    "https://example.com:/",
    "https://example.com:443:80/",
    "https://example.com:-1/",
    "https://example.com:+443/",
    "https://example.com:４４３/",
    "https://example.com:0x50/",
    "https://example.com:22/",
    "https://example.com:25/",
    "https://example.com:6379/",
    "https://example.com:11211/",
    "https://example.com:5432/",
    "https://example..com/",
    "https://.example.com/",
    "https://example.com../",
    "https://-example.com/",
    "https://example-.com/",
    "https://exa%6dple.com/",
    "https://127.0.0.1%2f@example.com/",
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 130 + "com/",
    "https://example.com/" + "a" * 2048,
    "https://faß.de/",
    "https://exam\u200dple.com/",
    "https://exam\u00adple\u3002\u3002com/",
    "https://[::1/",
    "https://::1/",
    "https://[::1]x/",
    "https://[127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[v1.fe80::a]/",
    "https://[::g]/",
    "https://[]/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0x/",
    "http://00.0.0.0/",
    "http://127.0.0.01/",
    "http://127.0.0.1.1/",
    "http://127.0.0.256/",
    "http://1.2.3.4.5/",
    "http://example.1/",
    "http://example.0x7f/",
    "http://134744072/",
    "http://08.8.8.8/",
    "http://１２７.1/",
]

# Written oddly, but every reader agrees on the host, which is private.
PRIVATE = [
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://localhost./",
    "http://api.localhost/",
    "http://a.b.localhost./",
    "http://ⓛocalhost/",
    "http://127.0.0.1./",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.①/",
    "HTTP://127.0.0.1/",
    "http://127.0.0.1:8080/path?query",
    "http://127.0.0.1?x",
    "https://[::FFFF:127.0.0.1]:8443/",
]

PUBLIC = [
    "https://example.com",
    "https://example.com/",
    "HTTPS://EXAMPLE.COM/Path?x=%2F&y=a+b;c",
    "http://example.com:8080/hook",
    "https://example.com./hook",
    "https://example.com?x=1",
    "https://bücher.example/",
    "https://xn--bcher-kva.example/",
    "https://a_b.example.com/",
    "https://1and1.example/",
    "https://8.8.8.8/",
    "https://1.1.1.1:65535/",
    "https://[2606:4700:4700::1111]/",
    "https://[2a00:1450:4001:80b::200e]:8443/x",
    "https://[64:ff9b::8.8.8.8]/",
    "https://[::ffff:8.8.8.8]/",
]
