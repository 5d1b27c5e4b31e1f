/* A libssh2 session with our settings: bounded memory, our own socket, chosen algorithms. */
#include "ssh_session.h"

#include <stdlib.h>

enum { ALLOC_MAX = 1 << 20 /* a hostile server can make libssh2 1.10 ask for 4 GiB */ };

static void *ssh_alloc(size_t size, void **abstract)
{
    (void)abstract;
    return size > ALLOC_MAX ? NULL : calloc(1, size ? size : 1);
}

static void ssh_free(void *ptr, void **abstract)
{
    (void)abstract;
    free(ptr);
}

static void *ssh_realloc(void *ptr, size_t size, void **abstract)
{
    (void)abstract;
    return size > ALLOC_MAX ? NULL : realloc(ptr, size ? size : 1);
}

union callback {
    ssize_t (*tx)(libssh2_socket_t, const void *, size_t, int, void **);
    ssize_t (*rx)(libssh2_socket_t, void *, size_t, int, void **);
    void *object;
    void (*function)(void);
};

static void set_callback(LIBSSH2_SESSION *session, int which, union callback callback)
{
#if LIBSSH2_VERSION_NUM >= 0x010b01
    libssh2_session_callback_set2(session, which, callback.function);
#else
    libssh2_session_callback_set(session, which, callback.object);
#endif
}

bool ssh_library_start(struct ssh *s, ssh_send_fn *tx, ssh_receive_fn *rx)
{
    static const char kex[] = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
                              "ecdh-sha2-nistp521";
    s->session = libssh2_session_init_ex(ssh_alloc, ssh_free, ssh_realloc, s);
    if (!s->session)
        return false;
    libssh2_session_set_blocking(s->session, 0);
    set_callback(s->session, LIBSSH2_CALLBACK_SEND, (union callback){.tx = tx});
    set_callback(s->session, LIBSSH2_CALLBACK_RECV, (union callback){.rx = rx});
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_KEX, kex);
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_CRYPT_CS, "aes128-ctr,aes256-ctr");
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_CRYPT_SC, "aes128-ctr,aes256-ctr");
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_MAC_CS, "hmac-sha2-256,hmac-sha2-512");
    libssh2_session_method_pref(s->session, LIBSSH2_METHOD_MAC_SC, "hmac-sha2-256,hmac-sha2-512");
    return true;
}
