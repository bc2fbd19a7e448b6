/* A pretended libnvidia-ml.so.1, so that tests run NVIDIA's own Python module against it.
 *
 * Owns the functions of NVML's ABI that the probe calls, under the names that nvidia-ml-py 13 looks
 * up. What the cards say is read from the file named by GANGWAY_FAKE_NVML_FLAT, lines of
 * "key = value" ("3.temperature_c = 40"), again whenever that file changes; driver.py writes it
 * from the state that nodes/demo/nvml.py reads. Another function: add it here under its exact name.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUT __attribute__((visibility("default")))
#define MOST_CARDS 128
#define MIB (1024ULL * 1024ULL)
#define NO_INSTANCE 0xFFFFFFFFu

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25,
};

typedef char *Card; /* a handle: only its place in `cards` counts, the same at every call */
typedef struct { uint64_t total, free, used; } Memory;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } MemoryV2;
typedef struct { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; } Process;
typedef struct { uint32_t gpu, memory; } Rates;
typedef struct {
    char legacy[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} Pci;
typedef struct {
    uint32_t field, scope;
    int64_t at_us, latency_us;
    uint32_t type, answer;
    uint64_t value;
} Field;

/* nvidia-ml-py hands over structures of these sizes. */
_Static_assert(sizeof(Memory) == 24 && sizeof(MemoryV2) == 40, "memory");
_Static_assert(sizeof(Process) == 24 && sizeof(Pci) == 68 && sizeof(Field) == 40, "structures");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char cards[MOST_CARDS];
static char *state;
static struct stat stamp;
static int users;

/* Read the file again if it is another; a file that cannot be read leaves what was read before. */
static void refresh(void) {
    const char *path = getenv("GANGWAY_FAKE_NVML_FLAT");
    struct stat now;
    if (path == NULL || stat(path, &now) != 0) return;
    if (state != NULL && now.st_ino == stamp.st_ino && now.st_size == stamp.st_size &&
        now.st_mtim.tv_sec == stamp.st_mtim.tv_sec && now.st_mtim.tv_nsec == stamp.st_mtim.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    char *text = file == NULL ? NULL : malloc((size_t)now.st_size + 1);
    if (text != NULL) {
        text[fread(text, 1, (size_t)now.st_size, file)] = '\0';
        free(state);
        state = text;
        stamp = now;
    }
    if (file != NULL) fclose(file);
}

/* Copy the value of `key` into `into`; 0 if there is no such line. */
static int look_up(const char *key, char *into, size_t size) {
    int found = 0;
    size_t length = strlen(key);
    pthread_mutex_lock(&lock);
    refresh();
    for (const char *line = state; line != NULL && *line != '\0' && !found;) {
        size_t end = strcspn(line, "\n");
        if (end > length + 3 && strncmp(line, key, length) == 0 &&
            strncmp(line + length, " = ", 3) == 0) {
            snprintf(into, size, "%.*s", (int)(end - length - 3), line + length + 3);
            found = 1;
        }
        line += end + (line[end] == '\n');
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static double number(const char *key, double usual) {
    char text[64];
    return look_up(key, text, sizeof text) ? strtod(text, NULL) : usual;
}

static double of(Card card, const char *name, double usual) {
    char key[96];
    snprintf(key, sizeof key, "%d.%s", (int)(card - cards), name);
    return number(key, usual);
}

static int words(Card card, const char *name, char *into, size_t size) {
    char key[96];
    snprintf(key, sizeof key, "%d.%s", (int)(card - cards), name);
    return look_up(key, into, size) ? SUCCESS : NOT_SUPPORTED;
}

static int library(void) {
    return users > 0 ? (int)number("error", SUCCESS) : UNINITIALIZED;
}

/* What a function of a card answers before it does anything: its hanging, its error. */
static int asked(Card card, const char *function) {
    char key[96];
    int error = library();
    if (error != SUCCESS) return error;
    if (card < cards || card >= cards + (int)number("count", 0)) return INVALID_ARGUMENT;
    usleep((useconds_t)(number("hang_s", 0) * 1e6));
    snprintf(key, sizeof key, "errors.%s", function);
    return (int)of(card, key, SUCCESS);
}

#define ASK(card, function)                                                                        \
    do {                                                                                           \
        int error = asked(card, function);                                                         \
        if (error != SUCCESS) return error;                                                        \
    } while (0)

OUT int nvmlInitWithFlags(unsigned int flags) {
    int error = (int)number("error", SUCCESS);
    (void)flags;
    users += error == SUCCESS;
    return error;
}

OUT int nvmlShutdown(void) {
    if (users == 0) return UNINITIALIZED;
    users--;
    return SUCCESS;
}

OUT const char *nvmlErrorString(int error) {
    return error == 16 ? "GPU requires restart" : "Unknown Error";
}

OUT int nvmlSystemGetDriverVersion(char *into, unsigned int size) {
    int error = library();
    if (error != SUCCESS) return error;
    return look_up("driver", into, size) ? SUCCESS : NOT_SUPPORTED;
}

OUT int nvmlDeviceGetCount_v2(unsigned int *count) {
    int error = library();
    *count = error == SUCCESS ? (unsigned int)number("count", 0) : 0;
    return error;
}

OUT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Card *card) {
    if (index >= MOST_CARDS) return INVALID_ARGUMENT;
    ASK(cards + index, "HandleByIndex");
    *card = cards + index;
    return SUCCESS;
}

OUT int nvmlDeviceGetUUID(Card card, char *into, unsigned int size) {
    ASK(card, "UUID");
    return words(card, "uuid", into, size);
}

OUT int nvmlDeviceGetName(Card card, char *into, unsigned int size) {
    ASK(card, "Name");
    return words(card, "name", into, size);
}

OUT int nvmlDeviceGetSerial(Card card, char *into, unsigned int size) {
    ASK(card, "Serial");
    if (words(card, "serial", into, size) != SUCCESS) into[0] = '\0';
    return SUCCESS;
}

OUT int nvmlDeviceGetPciInfo_v3(Card card, Pci *pci) {
    ASK(card, "PciInfo");
    memset(pci, 0, sizeof *pci);
    return words(card, "pci_bus_id", pci->bus_id, sizeof pci->bus_id);
}

OUT int nvmlDeviceGetMemoryInfo(Card card, Memory *memory) {
    ASK(card, "MemoryInfo");
    memory->total = (uint64_t)of(card, "memory_mib", 0) * MIB;
    memory->used = (uint64_t)of(card, "used_mib", 0) * MIB;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

OUT int nvmlDeviceGetMemoryInfo_v2(Card card, MemoryV2 *memory) {
    Memory plain;
    if (memory->version != (sizeof *memory | 2u << 24)) return VERSION_MISMATCH;
    int error = nvmlDeviceGetMemoryInfo(card, &plain);
    if (error != SUCCESS) return error;
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return SUCCESS;
}

/* Asked twice: for the number with no room at all, then with room to spare. */
OUT int nvmlDeviceGetComputeRunningProcesses_v3(Card card, unsigned int *count, Process *into) {
    ASK(card, "ComputeRunningProcesses");
    unsigned int room = *count, there = (unsigned int)of(card, "processes", 0);
    *count = there;
    if (there == 0) return SUCCESS;
    if (room < there || into == NULL) return INSUFFICIENT_SIZE;
    for (unsigned int place = 0; place < there; place++) {
        char pid[48], used[48];
        snprintf(pid, sizeof pid, "process.%u.pid", place);
        snprintf(used, sizeof used, "process.%u.used_mib", place);
        into[place] = (Process){(uint32_t)of(card, pid, 0), (uint64_t)of(card, used, 0) * MIB,
                                NO_INSTANCE, NO_INSTANCE};
    }
    return SUCCESS;
}

OUT int nvmlDeviceGetCudaComputeCapability(Card card, int *major, int *minor) {
    ASK(card, "CudaComputeCapability");
    *major = (int)of(card, "compute_capability.0", 0);
    *minor = (int)of(card, "compute_capability.1", 0);
    return SUCCESS;
}

OUT int nvmlDeviceGetMigMode(Card card, unsigned int *current, unsigned int *pending) {
    ASK(card, "MigMode");
    double mode = of(card, "mig", -1);
    if (mode < 0) return NOT_SUPPORTED;
    *current = *pending = mode > 0;
    return SUCCESS;
}

OUT int nvmlDeviceGetUtilizationRates(Card card, Rates *rates) {
    ASK(card, "UtilizationRates");
    *rates = (Rates){(uint32_t)of(card, "utilization_pct", 0), 0};
    return SUCCESS;
}

OUT int nvmlDeviceGetTemperature(Card card, unsigned int sensor, unsigned int *celsius) {
    ASK(card, "Temperature");
    if (sensor != 0) return INVALID_ARGUMENT;
    *celsius = (unsigned int)of(card, "temperature_c", 0);
    return SUCCESS;
}

OUT int nvmlDeviceGetTemperatureThreshold(Card card, unsigned int which, unsigned int *celsius) {
    ASK(card, "TemperatureThreshold");
    if (which != 0) return INVALID_ARGUMENT;
    *celsius = (unsigned int)of(card, "shutdown_c", 95);
    return SUCCESS;
}

OUT int nvmlDeviceGetTotalEccErrors(Card card, unsigned int type, unsigned int counter,
                                    unsigned long long *count) {
    ASK(card, "TotalEccErrors");
    if (type > 1 || counter > 1) return INVALID_ARGUMENT;
    /* uncorrected since the driver was loaded; of the other kinds there are none */
    *count = type == 1 && counter == 0 ? (unsigned long long)of(card, "ecc_uncorrected", 0) : 0;
    return SUCCESS;
}

OUT int nvmlDeviceGetRemappedRows(Card card, unsigned int *correctable, unsigned int *uncorrectable,
                                  unsigned int *pending, unsigned int *failed) {
    ASK(card, "RemappedRows");
    *correctable = (unsigned int)of(card, "remapped.0", 0);
    *uncorrectable = (unsigned int)of(card, "remapped.1", 0);
    *pending = (unsigned int)of(card, "remapped.2", 0);
    *failed = (unsigned int)of(card, "remapped.3", 0);
    return SUCCESS;
}

OUT int nvmlDeviceGetCurrentClocksEventReasons(Card card, unsigned long long *reasons) {
    ASK(card, "CurrentClocksEventReasons");
    *reasons = (unsigned long long)of(card, "clocks_reasons", 1);
    return SUCCESS;
}

/* The call succeeds while fields of it fail; the value's type says which member is set. */
OUT int nvmlDeviceGetFieldValues(Card card, int count, Field *fields) {
    ASK(card, "FieldValues");
    for (int place = 0; place < count; place++) {
        int known = fields[place].field == 230;
        fields[place].type = 1; /* unsigned int */
        fields[place].answer = known ? SUCCESS : NOT_SUPPORTED;
        fields[place].value = known ? (uint64_t)of(card, "recovery_action", 0) : 0;
    }
    return SUCCESS;
}

#define WHOLE(symbol, name, usual)                                                                 \
    OUT int nvmlDeviceGet##symbol(Card card, unsigned int *into) {                                 \
        ASK(card, #symbol);                                                                        \
        *into = (unsigned int)of(card, name, usual);                                               \
        return SUCCESS;                                                                            \
    }

WHOLE(CurrPcieLinkWidth, "pcie_width", 16)
WHOLE(MaxPcieLinkWidth, "pcie_width_max", 16)
WHOLE(CurrPcieLinkGeneration, "pcie_gen", 5)
WHOLE(MaxPcieLinkGeneration, "pcie_gen_max", 5)
WHOLE(PcieReplayCounter, "pcie_replays", 0)

OUT int nvmlDeviceGetPowerUsage(Card card, unsigned int *milliwatts) {
    ASK(card, "PowerUsage");
    *milliwatts = (unsigned int)(of(card, "power_w", 0) * 1000 + 0.5);
    return SUCCESS;
}
