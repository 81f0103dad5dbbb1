// SPDX-License-Identifier: Apache-2.0
#include "flow/action.h"

// One row a class. WAIT is for what another event will end (a full disk that is looked at again, a server that is away); GIVE_UP for
// what only a change of the object can.
static const struct action_row table[] = {
    { E_INVAL, ACT_GIVE_UP, true, "Invalid" },
    { E_NOTFOUND, ACT_RETRY, false, "NotFound" },
    { E_CONFLICT, ACT_RETRY, false, "Conflict" },
    { E_GONE, ACT_RETRY, false, "Expired" },
    { E_AUTH, ACT_RETRY, true, "Unauthorized" },
    { E_FORBIDDEN, ACT_RETRY, true, "Forbidden" },
    { E_OFFLINE, ACT_RETRY, false, "Offline" },
    { E_TIMEOUT, ACT_RETRY, true, "Timeout" },
    { E_BUSY, ACT_WAIT, false, "Busy" },
    { E_IO, ACT_RETRY, true, "IOError" },
    { E_NOSPC, ACT_RETRY, true, "NoSpace" },
    { E_NOMEM, ACT_RETRY, true, "NoMemory" },
    { E_UNSUP, ACT_GIVE_UP, true, "Unsupported" },
    { E_TERMINAL, ACT_GIVE_UP, true, "Failed" },
    { E_EXISTS, ACT_RETRY, true, "AlreadyExists" },
    { E_TOOBIG, ACT_GIVE_UP, true, "TooLarge" },
    { E_CORRUPT, ACT_RETRY, true, "Damaged" },
    { E_CANCELED, ACT_RETRY, false, "Canceled" },
    { E_SERVER, ACT_RETRY, true, "ServerError" },
};

const struct action_row *action_of(int cls)
{
    static const struct action_row unknown = { 0, ACT_RETRY, true, "Error" };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].cls == cls)
            return &table[i];
    return &unknown;
}
